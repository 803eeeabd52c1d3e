// Something went wrong: what, and what to do.

import { html } from "../vendor/preact.js";

/**
 * @param {{error: any, retry?: () => void}} props an ApiError, or any Error
 */
export function Problem({ error, retry }) {
  const title = error?.problem?.title ?? "That did not work";
  const detail = error?.message ?? String(error);
  return html`<div class="problem" role="alert">
    <p class="problem-title">${title}</p>
    <p class="problem-detail">${detail}</p>
    ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}
  </div>`;
}
