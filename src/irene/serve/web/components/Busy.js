// Work is under way: words for screen readers, a quiet line for everybody else.

import { html } from "../vendor/preact.js";

/** @param {{label?: string, inline?: boolean}} props */
export function Busy({ label = "Working", inline = false }) {
  return html`<div class=${inline ? "busy busy-inline" : "busy"} role="status">
    <span class="busy-bar" aria-hidden="true"></span>
    <span class="busy-label">${label} …</span>
  </div>`;
}
