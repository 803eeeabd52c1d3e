// A page that asks one question: what was found, the settings beside it, the answer.

import { html } from "../vendor/preact.js";
import { Busy } from "./Busy.js";
import { ExportMenu } from "./ExportMenu.js";
import { Problem } from "./Problem.js";
import { Where } from "./RunForm.js";
import { Side } from "./Side.js";

/**
 * @param {{name: string, lede: any, take: any, side: any, answer: import("../lib/answer.js").Answer, busy: string,
 *   change?: string, on?: string, frame?: any, children?: any}} props lede: the answer in a sentence; on: its machine; take: what can be exported; side: controls;
 *   change: what they change, in words; busy: what is being done, in words; frame: ref to the answer
 */
export function AnswerPage({ name, lede, on = "", take, side, change, answer, busy, frame, children }) {
  return html`<div class="page">
    <header class="page-head">
      <div><h1>${name}</h1><p class="lede" role="status">${lede}</p>${on && html`<${Where} name=${on} />`}</div>
      <${ExportMenu} ...${take} />
    </header>
    <div class="with-side">
      <${Side} change=${change}>${side}</${Side}>
      <section class="main-column" aria-busy=${answer.busy} ref=${frame}>
        ${answer.error && html`<${Problem} error=${answer.error} retry=${answer.retry} />`}
        ${answer.busy && html`<${Busy} inline=${answer.document !== null} label=${busy} />`}
        ${children}
      </section>
    </div>
  </div>`;
}
