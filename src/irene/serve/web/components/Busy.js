// Work is under way: words for screen readers, a quiet line for everybody else.

import { html, useEffect, useState } from "../vendor/preact.js";

/** @param {{label?: string, inline?: boolean}} props */
export function Busy({ label = "Working", inline = false }) {
  return html`<div class=${inline ? "busy busy-inline" : "busy"} role="status">
    <span class="busy-bar" aria-hidden="true"></span>
    <span class="busy-label">${label} …</span>
  </div>`;
}

/**
 * A part whose script is loaded once it is wanted.
 * @param {{load: () => Promise<any>, wanted?: boolean, label?: string, [prop: string]: any}} props label: while it is loaded
 */
export function Later({ load, wanted = true, label = "", ...props }) {
  const [Part, setPart] = useState(/** @type {any} */ (null));
  useEffect(() => {
    if (wanted && !Part) load().then((part) => setPart(() => part));
  }, [wanted]);
  return Part ? html`<${Part} ...${props} />` : wanted && label && html`<${Busy} label=${label} />`;
}
