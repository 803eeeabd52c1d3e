// What a served language model takes: per token and per second, the times a user feels,
// whether it fits, and what more streams would do.

import { html } from "../vendor/preact.js";
import { useAnswer } from "../lib/answer.js";
import { integer, interval, joules, seconds, watts } from "../lib/format.js";
import { inWords } from "../lib/parameters.js";
import { Busy } from "./Busy.js";
import { Chart, Line, Scatter } from "./Chart.js";

const STREAMS = [1, 4, 16, 64, 256];
const NO_ROOM = "do not fit into";

/** @param {{document: any}} props a document `irene.tree/1` with a `generation` */
export function ServingFigures({ document }) {
  const { generation: found, notes = [] } = document;
  const tight = notes.find((/** @type {string} */ note) => note.includes(NO_ROOM));
  const ends = (/** @type {string} */ name) => interval(found[name], found[`${name}_low`], found[`${name}_high`]);
  /** @type {[string, string, string][]} */
  const figures = [
    ["per output token", joules(found.j_per_output_token), ends("j_per_output_token")],
    ["per request", joules(found.j_per_request), ends("j_per_request")],
    ["power", watts(found.j_per_second), ends("j_per_second")],
    ["tokens per second", integer(Math.round(found.output_tokens_per_s)), "all streams"],
    ["first token after", seconds(found.ttft_s), ends("ttft_s")],
    ["between tokens", seconds(found.tbt_s), ends("tbt_s")],
  ];
  return html`<dl class="figures big serving-figures">
    ${figures.map(([name, value, spread]) => html`<div key=${name}><dt>${name}</dt><dd>${value} <span class="hint">${spread}</span></dd></div>`)}
    <div><dt>memory</dt><dd class=${tight ? "bad" : "good"}>${tight ? "does not fit" : "fits"}</dd>${tight && html`<dd class="hint">${inWords(tight)}</dd>`}</div>
  </dl>`;
}

/**
 * Energy per token by how many streams are served at once; a click takes as many.
 * @param {{model: string, run: Record<string, string>, onStreams: (streams: number) => void}} props
 */
export function StreamsCurve({ model, run, onStreams }) {
  const now = Number(run.batch_size);
  const streams = [...new Set([...STREAMS, ...(now > 0 ? [now] : [])])].sort((a, b) => a - b);
  const { document, error, busy } = useAnswer("/what-if", { model, ...run, batch_size: streams.join(",") }, { wait: 400 });
  if (error) return null;
  if (!document) return busy ? html`<div class="panel"><${Busy} inline label="Trying other numbers of streams" /></div>` : null;
  const points = document.rows.filter((/** @type {any} */ row) => row.energy && row.per_token_j).map((/** @type {any} */ row) => {
    const factor = row.per_token_j / row.energy.joules;
    return { x: row.batch_size, y: row.per_token_j, low: row.energy.low * factor, high: row.energy.high * factor, room: !row.notes.some((/** @type {string} */ note) => note.includes(NO_ROOM)) };
  });
  if (points.length < 2) return null;
  return html`<section class="panel"><h2>More streams at once</h2>
    <p class="hint">Energy per output token; hollow where weights and cache do not fit into the memory. Click a point to serve as many.</p>
    <${Chart} label="Energy per output token by streams at once" height=${230}
      x=${{ values: points.map((/** @type {any} */ each) => each.x), label: "streams at once", log: true, format: integer, ticks: points.map((/** @type {any} */ each) => each.x) }}
      y=${{ values: points.flatMap((/** @type {any} */ each) => [each.low, each.high]), format: joules, log: true }}
    >${(/** @type {any} */ { x, y }) => html`<${Line} points=${points} x=${x} y=${y} />
      <${Scatter} x=${x} y=${y} selected=${String(now)} onPick=${(/** @type {any} */ each) => onStreams(each.x)} points=${points.map((/** @type {any} */ each) => ({
        ...each, key: String(each.x), radius: 4, class: each.room ? "pickable" : "pickable hollow", label: `${integer(each.x)} streams: ${joules(each.y)} per token`,
      }))} />`}</${Chart}>
    <p class="stream-buttons">${points.map((/** @type {any} */ each) => html`<button key=${each.x} type="button" aria-pressed=${each.x === now} onClick=${() => onStreams(each.x)}>${integer(each.x)}: ${joules(each.y)}</button>`)}</p>
  </section>`;
}
