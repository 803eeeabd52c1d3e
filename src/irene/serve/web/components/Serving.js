// What a served language model takes: per token and per second, the times a user feels,
// and whether it fits.

import { html } from "../vendor/preact.js";
import { integer, interval, joules, percent, seconds, watts } from "../lib/format.js";

const NO_ROOM = "do not fit into";

/** @param {{document: any}} props a document `irene.tree/1` with a `generation` */
export function ServingFigures({ document }) {
  const { generation: found, notes = [], tree } = document;
  const used = found.memory_share ?? tree?.features?.memory_share;
  const tight = notes.some((/** @type {string} */ note) => note.includes(NO_ROOM));
  const ends = (/** @type {string} */ name) => interval(found[name], found[`${name}_low`], found[`${name}_high`]);
  /** @type {[string, string, string][]} */
  const figures = [
    ["per output token", joules(found.j_per_output_token), ends("j_per_output_token")],
    ["per request", joules(found.j_per_request), ends("j_per_request")],
    ["power", watts(found.j_per_second), ends("j_per_second")],
    ["tokens per second", integer(Math.round(found.output_tokens_per_s)), "with prompts"],
    ["first token after", seconds(found.ttft_s), ends("ttft_s")],
    ["between tokens", seconds(found.tbt_s), ends("tbt_s")],
  ];
  return html`<dl class="figures big serving-figures">
    ${figures.map(([name, value, spread]) => html`<div key=${name}><dt>${name}</dt><dd>${value} <span class="hint">${spread || "\u00a0"}</span></dd></div>`)}
    <div><dt>memory</dt><dd class=${tight ? "bad" : "good"}>${tight ? "does not fit" : "fits"} <span class="hint">${used && `${percent(used)} of it used`}</span></dd></div>
  </dl>`;
}
