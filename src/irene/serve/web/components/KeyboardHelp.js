// The list of keys in a dialog.

import { html, useEffect, useRef } from "../vendor/preact.js";
import { KEYS } from "../lib/keys.js";

/** @param {{open: boolean, onClose: () => void}} props */
export function KeyboardHelp({ open, onClose }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    if (open) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open]);
  return html`<dialog ref=${dialog} class="keys-dialog" aria-labelledby="keys-title" onClose=${onClose}>
    <div class="dialog-head">
      <h2 id="keys-title">Keyboard</h2>
      <button type="button" class="quiet square" aria-label="Close" onClick=${onClose}>×</button>
    </div>
    ${open && html`<${KeyTables} />`}
  </dialog>`;
}

/** The keys as tables. */
export function KeyTables() {
  return html`<div class="keys">
    ${KEYS.map(
      ({ title, keys }) => html`<section>
        <h3>${title}</h3>
        <dl>${keys.map(([key, does]) => html`<dt><kbd>${key}</kbd></dt><dd>${does}</dd>`)}</dl>
      </section>`,
    )}
  </div>`;
}
