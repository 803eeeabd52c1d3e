// Something went wrong: what, and what to do.

import { html } from "../vendor/preact.js";
import { inWords } from "../lib/parameters.js";

/** @type {Record<number, string>} */
const TITLES = {
  0: "No answer", 400: "That cannot be answered", 401: "This server wants a token", 403: "Not allowed here", 404: "There is no such thing",
  413: "That is too large", 422: "Something in the question is wrong", 429: "Too many questions at once", 503: "The server is busy", 504: "That took too long",
};

/** What the API says to programs, as a page says it. @type {[RegExp, any][]} */
const WORDS = [
  [/\/api\/v1\/models lists all names/, "the field Model lists all names"],
  [/can be uploaded to \/api\/v1\/uploads/, "can be dropped anywhere on this page"],
  [/^(\w+): Input should be greater than or equal to (\d+)/, "--$1 must be at least $2"],
  [/^(\w+): Input should be a valid (?:integer|number).*/, "--$1 must be a number"],
  [/^(max_\w+) is/, "--$1 is"],
  [/^[a-z]+(?=[ ,:])/, (/** @type {string} */ word) => word.charAt(0).toUpperCase() + word.slice(1)],
];

/**
 * @param {{error: any, retry?: () => void}} props an ApiError, or any Error
 */
export function Problem({ error, retry }) {
  const title = TITLES[error?.status] ?? "That did not work";
  const detail = inWords(WORDS.reduce((text, [from, to]) => text.replace(from, to), String(error?.message ?? error)));
  return html`<div class="problem" role="alert">
    <p class="problem-title">${title}</p>
    <p class="problem-detail">${detail}</p>
    ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}
  </div>`;
}
