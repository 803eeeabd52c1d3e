// Find anything by typing: a model, a machine, a page.

import { html, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { findModels } from "../lib/catalogue.js";
import { useMachines } from "../lib/machines.js";
import { carried } from "../lib/run.js";
import { navigate, readQuery, writeQuery } from "../lib/state.js";
import { useModels } from "./ModelCombobox.js";
import { NAVIGATION } from "./Page.js";

const SHOWN = 12;

/** @param {{open: boolean, onClose: () => void}} props */
export function Palette({ open, onClose }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  // At once: what is typed next is meant for the dialog.
  useLayoutEffect(() => {
    if (open) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open]);
  return html`<dialog ref=${dialog} class="palette" aria-label="Find a model, a machine or a page" onClose=${onClose}>
    ${open && html`<${Finding} onClose=${onClose} />`}
  </dialog>`;
}

/** @param {{onClose: () => void}} props */
function Finding({ onClose }) {
  const [words, setWords] = useState("");
  const [at, setAt] = useState(0);
  const models = useModels();
  const machines = useMachines();
  const has = (/** @type {string} */ name) => words.toLowerCase().split(/\s+/).every((word) => name.toLowerCase().includes(word));
  const here = readQuery(window.location.search);
  const to = (/** @type {Record<string, string>} */ changes) => carried({ ...here, ...changes });
  const found = [
    ...NAVIGATION.filter(([, label]) => has(String(label))).map(([href, label]) => ({ name: label, kind: "page", href: `${href}${to({})}` })),
    ...findModels(models, words).map(({ name }) => ({ name, kind: "model", href: `/${to({ model: name, upload: "", anew: "", answer: "" })}` })),
    ...machines.filter((each) => has(each.words)).map((each) => ({ name: each.words, kind: "machine", href: `${window.location.pathname}${writeQuery({ ...here, on: each.name })}` })),
  ].slice(0, SHOWN);
  const go = (/** @type {{href: string} | undefined} */ item) => {
    if (!item) return;
    onClose();
    navigate(item.href);
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "ArrowDown") setAt(Math.min(at + 1, found.length - 1));
    else if (event.key === "ArrowUp") setAt(Math.max(at - 1, 0));
    else if (event.key === "Enter") go(found[at]);
    else if (event.key === "Escape") onClose(); // at once, not after what was typed is gone
    else return;
    event.preventDefault();
  };
  return html`<input
      type="search" autofocus role="combobox" aria-expanded="true" aria-controls="palette-list" aria-label="Find a model, a machine or a page"
      aria-activedescendant=${found[at] ? `palette-${at}` : undefined} placeholder="Find a model, a machine or a page" autocomplete="off" spellcheck=${false}
      value=${words} onInput=${(/** @type {any} */ e) => (setWords(e.target.value), setAt(0))} onKeyDown=${onKeyDown}
    />
    <ul id="palette-list" class="palette-list" role="listbox" aria-label="Found">
      ${found.map((item, i) => html`<li key=${item.kind + item.name} id=${`palette-${i}`} role="option" aria-selected=${i === at} onClick=${() => go(item)}><span>${item.name}</span><small class="soft">${item.kind}</small></li>`)}
      ${found.length === 0 && html`<li role="option" aria-disabled="true" aria-selected="false" class="combo-empty">Nothing has these words.</li>`}
    </ul>`;
}
