// Choosing a model: type a few words, arrows, Enter. ARIA combobox with a listbox.

import { html, useEffect, useId, useRef, useState } from "../vendor/preact.js";
import { useList } from "../lib/answer.js";
import { findModels } from "../lib/catalogue.js";
import { count } from "../lib/format.js";
import { calledName } from "../lib/recent.js";

const SHOWN = 60;

/** @returns {import("../lib/catalogue.js").Model[]} the catalogue, empty until it is there */
export const useModels = () => useList("/models", (answer) => answer.models);

/**
 * @param {{value: string, onChange: (name: string) => void, label?: string, kind?: string}} props kind: of
 *   models to offer; "" for all
 */
export function ModelCombobox({ value, onChange, label = "Model", kind = "" }) {
  const models = useModels().filter((each) => !kind || each.kind === kind);
  const id = useId();
  const [typed, setTyped] = useState(/** @type {string | null} */ (null));
  const [at, setAt] = useState(0);
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const open = typed !== null;
  const all = open ? findModels(models, typed) : [];
  const found = all.slice(0, SHOWN);
  useEffect(() => {
    list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [at, open]);

  const choose = (/** @type {string | undefined} */ name) => {
    setTyped(null);
    if (name && name !== value) onChange(name);
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    const last = found.length - 1;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (!open) setTyped("");
      else setAt(event.key === "ArrowDown" ? Math.min(at + 1, last) : Math.max(at - 1, 0));
    } else if (event.key === "Enter" && open) choose(found[at]?.name ?? (typed.startsWith("upload:") ? typed : undefined));
    else if (event.key === "Escape" && open) setTyped(null);
    else return;
    event.preventDefault();
  };
  return html`<div class="field combo">
    <label for=${id}>${label}</label>
    <input
      id=${id} type="text" role="combobox" autocomplete="off" spellcheck=${false}
      aria-expanded=${open} aria-controls=${`${id}-list`} aria-autocomplete="list"
      aria-activedescendant=${open && found[at] ? `${id}-${at}` : undefined}
      value=${typed ?? calledName(value)}
      onFocus=${(/** @type {any} */ e) => e.target.select()}
      onClick=${() => typed === null && (setTyped(""), setAt(0))}
      onInput=${(/** @type {any} */ e) => (setTyped(e.target.value), setAt(0))}
      onKeyDown=${onKeyDown}
      onBlur=${() => setTyped(null)}
    />
    ${open && html`<ul class="combo-list" id=${`${id}-list`} role="listbox" aria-label=${label} ref=${list}>
      ${found.map(
        (model, i) => html`<li
          key=${model.name} id=${`${id}-${i}`} role="option" aria-selected=${i === at}
          onPointerDown=${(/** @type {Event} */ e) => (e.preventDefault(), choose(model.name))}
        ><span>${model.name}</span><small>${model.params ? count(model.params) : ""} ${model.kind ?? ""}</small></li>`,
      )}
      ${all.length > SHOWN && html`<li role="option" aria-disabled="true" aria-selected="false" class="combo-empty">${all.length - SHOWN} more: type to narrow</li>`}
      ${found.length === 0 && html`<li role="option" aria-disabled="true" aria-selected="false" class="combo-empty">${models.length ? "No model has these words." : "Loading the catalogue …"}</li>`}
    </ul>`}
  </div>`;
}
