// What is on screen, to take away: SVG, PNG, CSV, JSON, the API call, the command.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";

/**
 * Every source is optional; a missing one is not offered.
 * @param {{name: string, svg?: () => any, csv?: () => any,
 *   json?: () => any, api?: () => string, cli?: () => string}} props name: of the files, without ending;
 *   svg: an element or its text; csv: rows, the header first; either may be awaited; api: address on this server; cli: command line
 */
export function ExportMenu({ name, svg, csv, json, api, cli }) {
  const [open, setOpen] = useState(false);
  const [toast, setToast] = useState("");
  const menu = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (!open) return undefined;
    /** @type {HTMLElement | null | undefined} */ (menu.current?.querySelector("[role=menuitem]"))?.focus();
    const away = (/** @type {Event} */ event) => {
      if (!menu.current?.contains(/** @type {Node} */ (event.target))) setOpen(false);
    };
    document.addEventListener("pointerdown", away);
    return () => document.removeEventListener("pointerdown", away);
  }, [open]);
  useEffect(() => {
    if (!toast) return undefined;
    const timer = setTimeout(() => setToast(""), 4000);
    return () => clearTimeout(timer);
  }, [toast]);

  const files = () => import("../lib/export.js");
  const picture = async () => (await files()).svgText(await svg?.());
  const save = async (/** @type {string} */ end, /** @type {string} */ type, /** @type {any} */ content) => (await files()).download(`${name}.${end}`, type, content);
  const copy = async (/** @type {string} */ text) => {
    try {
      await navigator.clipboard.writeText(text);
      setToast(`Copied: ${text}`);
    } catch {
      setToast(text);
    }
  };
  /** @type {[string, any, () => any][]} */
  const items = [
    ["Picture, SVG", svg, async () => save("svg", "image/svg+xml", await picture())],
    ["Picture, PNG", svg, async () => save("png", "image/png", await (await files()).svgToPng(await picture()))],
    ["Table, CSV", csv, async () => save("csv", "text/csv", (await files()).csvText(await csv?.()))],
    ["Document, JSON", json, () => save("json", "application/json", JSON.stringify(json?.(), null, 1))],
    ["Copy API call", api, () => copy(`curl '${new URL(/** @type {any} */ (api)(), location.href).href}'`)],
    ["Copy CLI command", cli, () => copy(/** @type {any} */ (cli)())],
    ["Copy link to this view", true, () => copy(location.href)],
  ];
  const act = async (/** @type {() => any} */ action) => {
    setOpen(false);
    menu.current?.querySelector("button")?.focus();
    try {
      await action();
    } catch (error) {
      setToast(`That did not work: ${error}`);
    }
  };
  return html`<div class="menu" ref=${menu} onKeyDown=${(/** @type {KeyboardEvent} */ e) => onMenuKey(e, menu.current, setOpen)}>
    <button type="button" aria-haspopup="menu" aria-expanded=${open} onClick=${() => setOpen(!open)}>Export <span aria-hidden="true">▾</span></button>
    ${open && html`<div class="menu-list" role="menu" aria-label="Export">
      ${items.filter(([, source]) => source).map(
        ([label, , action]) => html`<button type="button" role="menuitem" tabindex="-1" onClick=${() => act(action)}>${label}</button>`,
      )}
    </div>`}
    <span role="status">${toast && html`<span class="toast">${toast}</span>`}</span>
  </div>`;
}

/**
 * @param {KeyboardEvent} event
 * @param {HTMLElement | null} menu
 * @param {(open: boolean) => void} setOpen
 */
function onMenuKey(event, menu, setOpen) {
  const items = [...(menu?.querySelectorAll("[role=menuitem]") ?? [])];
  if (items.length === 0) return;
  const at = items.indexOf(/** @type {Element} */ (document.activeElement));
  const move = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
  if (move !== undefined) /** @type {HTMLElement} */ (items[(move + items.length) % items.length]).focus();
  else if (event.key === "Escape") {
    setOpen(false);
    menu?.querySelector("button")?.focus();
  } else if (event.key === "Tab") setOpen(false);
  else return;
  if (event.key !== "Tab") event.preventDefault();
}
