// Something went wrong: what, and what to do.

import { html } from "../vendor/preact.js";

/** @type {Record<number, string>} */
const TITLES = {
  0: "No answer", 400: "That cannot be answered", 401: "This server wants a token", 403: "Not allowed here", 404: "There is no such thing",
  413: "That is too large", 422: "Something in the question is wrong", 429: "Too many questions at once", 503: "The server is busy", 504: "That took too long",
};

/**
 * @param {{error: any, retry?: () => void}} props an ApiError, or any Error
 */
export function Problem({ error, retry }) {
  const title = TITLES[error?.status] ?? "That did not work";
  const detail = error?.message ?? String(error);
  return html`<div class="problem" role="alert">
    <p class="problem-title">${title}</p>
    <p class="problem-detail">${detail}</p>
    ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}
  </div>`;
}
