// The cheapest way to serve a language model that is quick enough: which GPUs, how many, which
// weights, how many streams.

import { html, useRef } from "../vendor/preact.js";
import { AnswerPage } from "../components/AnswerPage.js";
import { Curves } from "../components/Chart.js";
import { Check, Entry, Notes, Toggles } from "../components/Controls.js";
import { useModels } from "../components/ModelCombobox.js";
import { RunForm } from "../components/RunForm.js";
import { ServingFigures } from "../components/Serving.js";
import { useAnswer } from "../lib/answer.js";
import { apiUrl } from "../lib/api.js";
import { integer, interval, joules, percent, seconds, watts } from "../lib/format.js";
import { useMachines } from "../lib/machines.js";
import { runFields } from "../lib/parameters.js";
import { CHAT, readRun, runChanges, SERVED } from "../lib/run.js";
import { flag, text, writeQuery } from "../lib/state.js";
import { commandLine } from "../lib/subjects.js";

export const title = "Cheapest serving";

/** What is tried, and how quick it has to be, unless somebody says; the run is that of other pages. */
const USUAL = { try_on: "h100,b200", try_tensor_parallel: "1,2,4,8", try_quantization: "", max_latency: "50ms", max_first_token: "" };
const ANY = "any";
/** Settings of a run that are tried here, or that a serving has not. */
const TRIED = ["on", "batch_size", "tensor_parallel", "expert_parallel", "data_parallel", "quantization", "phase"];
const MOST_CURVES = 8;

/** @param {{query: any, setQuery: any}} props */
export default function ServePlanPage({ query, setQuery }) {
  // What does not write text cannot be served; other pages keep it.
  const given = text(query, "model", SERVED);
  const other = useModels().some(({ name, kind }) => name === given && kind !== "decoder");
  const model = other ? SERVED : given;
  /** @type {Record<string, string>} */
  const run = { ...CHAT, ...readRun(query) };
  const asked = (/** @type {keyof typeof USUAL} */ name) => text(query, name, USUAL[name]).replace(ANY, "");
  const limits = { max_latency: asked("max_latency"), max_first_token: asked("max_first_token") };
  const tried = { on: asked("try_on"), tensor_parallel: asked("try_tensor_parallel"), quantization: asked("try_quantization") };
  const shared = runFields().filter(({ name, serving }) => (serving || name === "dtype") && !TRIED.includes(name)).map(({ name }) => [name, run[name]]);
  const options = { ...tried, ...limits, ...Object.fromEntries(shared) };
  const answer = useAnswer("/serve-plan", { model, ...options }, { wait: 300 });
  const { document } = answer;
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  const take = {
    name: `serve-plan-${model}`, json: () => document, csv: () => cells(document?.options ?? []), svg: () => frame.current?.querySelector(".chart svg") ?? null,
    api: () => apiUrl("/serve-plan", { model, ...options }), cli: () => commandLine("serve-plan", [model], options),
  };
  const set = (/** @type {keyof typeof USUAL} */ name) => (/** @type {string} */ value) => setQuery({ [name]: value === USUAL[name] ? null : value || ANY });
  const machines = useMachines().filter(({ serves }) => serves).map(({ name, words }) => [name, words]);
  const weights = runFields().find(({ name }) => name === "quantization")?.choices.filter((each) => !/^q\d|_/.test(each)) ?? [];
  const side = html`<fieldset class="group"><legend>How quick</legend>
      <${Entry} label="Between tokens, at most" value=${limits.max_latency} placeholder=${ANY} hint="as 50ms" onChange=${set("max_latency")} />
      <${Entry} label="To the first token, at most" value=${limits.max_first_token} placeholder=${ANY} hint="as 2s, without a queue" onChange=${set("max_first_token")} />
    </fieldset>
    <fieldset class="group"><legend>What to try</legend>
      <${Toggles} label="GPUs" value=${tried.on} options=${machines} onChange=${set("try_on")} />
      <${Toggles} label="How many" value=${tried.tensor_parallel} options=${["1", "2", "4", "8"].map((each) => [each, ""])} onChange=${set("try_tensor_parallel")} />
      <${Toggles} label="Weights; none: as published" value=${tried.quantization} options=${weights.map((each) => [each, ""])} onChange=${set("try_quantization")} />
      <p class="hint">Each with 1, 2, 4, … 1,024 streams at once, as far as memory reaches.</p>
    </fieldset>
    <${RunForm} model=${model} run=${run} without=${TRIED} onModel=${(/** @type {string} */ name) => setQuery({ model: name })} onRun=${(/** @type {any} */ next, /** @type {any} */ how) => setQuery(runChanges(next), how)} />`;
  const lede = document ? verdict(document) : "Which GPUs, how many and how many streams take the fewest joules, and are quick enough.";
  return html`<${AnswerPage} name="Cheapest serving" lede=${lede} on=${document?.best?.on} take=${take} side=${side} change="limits, GPUs and the run" answer=${answer} busy="Predicting every way to serve it" frame=${frame}>
    ${document && html`${document.best && html`<${ServingFigures} document=${{ generation: generation(document.best) }} />`}
      <div class="panel"><${Picture} document=${document} /></div>
      <div class="panel"><${Table} document=${document} every=${flag(query, "every")} setQuery=${setQuery} link=${link} /></div>
      <${Notes} label="Left out" notes=${document.left_out.map((/** @type {any} */ each) => `${each.model}: ${each.problem}`)} />
      <${Notes} notes=${document.best?.notes} />`}
  </${AnswerPage}>`;

  /** @param {any} each one way */
  function link({ on, batch_size, settings }) {
    const given = Object.entries(settings).filter(([, value]) => value !== null).map(([name, value]) => [name, String(value)]);
    return `/${writeQuery({ model, ...runChanges({ ...run, ...Object.fromEntries(given), on, batch_size: String(batch_size) }) })}`;
  }
}

/** @param {any} each one way: its GPUs and settings, without its streams */
function wayName({ gpus, on, settings }) {
  const told = Object.entries(settings).filter(([name, value]) => name !== "tensor_parallel" && value !== null);
  return [`${gpus} × ${on}`, ...told.map(([, value]) => value)].join(", ");
}

/** @param {any} document */
function verdict({ model, best, options }) {
  const within = options.filter((/** @type {any} */ each) => each.meets).length;
  if (!best) {
    const quickest = options.reduce((/** @type {any} */ a, /** @type {any} */ b) => (b.tbt_s < a.tbt_s ? b : a));
    return html`<strong>None</strong> of ${integer(options.length)} ways is quick enough. The quickest is ${wayName(quickest)}: ${seconds(quickest.tbt_s)} between tokens, ${seconds(quickest.ttft_s)} to the first.`;
  }
  return html`Serve ${model} on <strong>${wayName(best)}</strong> with <strong>${integer(best.batch_size)} streams</strong>: ${joules(best.j_per_output_token)} per output token.
    ${" "}${integer(within)} of ${integer(options.length)} ways are quick enough${best.surely_meets ? "" : "; at the slow end of its interval this one is not"}.`;
}

/** @param {any} each one way, as the figures of a serving have it */
function generation(each) {
  const tokens = each.j_per_request / each.j_per_output_token;
  return {
    ...each, j_per_output_token_low: each.low_j, j_per_output_token_high: each.high_j, j_per_request_low: each.low_j * tokens, j_per_request_high: each.high_j * tokens,
    j_per_second: each.watts, tbt_s_low: each.tbt_low_s, tbt_s_high: each.tbt_high_s,
  };
}

/** @param {{document: any}} props */
function Picture({ document: { options, best, limit } }) {
  /** @type {Map<string, any[]>} the cheapest first */
  const curves = new Map();
  for (const each of options) curves.set(wayName(each), [...(curves.get(wayName(each)) ?? []), each]);
  const point = (/** @type {any} */ each) => ({
    x: each.tbt_s, y: each.j_per_output_token, low: each.low_j, high: each.high_j, key: keyOf(each), radius: each.on_front ? 4.5 : 3,
    label: `${wayName(each)}, ${integer(each.batch_size)} streams: ${joules(each.j_per_output_token)}, ${seconds(each.tbt_s)}`,
  });
  return html`<${Curves}
    label="Energy per output token by the time between tokens; the table below has the numbers" selected=${best && keyOf(best)}
    curves=${[...curves].slice(0, MOST_CURVES).map(([name, ways]) => ({ name, points: ways.sort((a, b) => a.batch_size - b.batch_size).map(point) }))}
    x=${{ label: "time between tokens", format: seconds, log: true }} y=${{ label: "energy per output token", format: joules, log: true }}
  >${(/** @type {any} */ { x, y }) => {
    const at = Math.min(Math.max(x(limit.between_s), x.range[0]), x.range[1]);
    return limit.between_s && html`<rect class="out-of-budget" x=${at} y=${y.range[1]} width=${x.range[1] - at} height=${y.range[0] - y.range[1]} />`;
  }}</${Curves}>`;
}

/** @param {any} each */
const keyOf = (each) => `${wayName(each)} ${each.batch_size}`;

/** @param {{document: any, every: boolean, setQuery: any, link: (each: any) => string}} props */
function Table({ document: { options, best }, every, setQuery, link }) {
  const shown = options.filter((/** @type {any} */ each) => every || each.on_front);
  return html`<div class="table-scroll tall" tabindex="0" role="region" aria-label="Ways to serve it">
    <table class="data plan">
      <thead><tr><th scope="col">On</th>${["Streams", "Per output token", "Interval", "Between tokens", "First token", "Tokens per s", "Power", "Memory"].map((name) => html`<th scope="col" class="number">${name}</th>`)}</tr></thead>
      <tbody>${shown.map((/** @type {any} */ each) => html`<tr key=${keyOf(each)} class=${`${keyOf(each) === (best && keyOf(best)) ? "picked" : ""} ${each.meets ? "" : "faded-row"}`}>
        <th scope="row"><a href=${link(each)}>${wayName(each)}</a>
          ${best && keyOf(each) === keyOf(best) && html` <span class="badge">take this</span>`}${!each.meets && html` <span class="hint">too slow</span>`}</th>
        <td class="number">${integer(each.batch_size)}</td>
        <td class="number">${joules(each.j_per_output_token)}</td>
        <td class="number hint">${interval(each.j_per_output_token, each.low_j, each.high_j)}</td>
        <td class="number">${seconds(each.tbt_s)}</td>
        <td class="number">${seconds(each.ttft_s)}</td>
        <td class="number">${integer(each.output_tokens_per_s)}</td>
        <td class="number">${watts(each.watts)}</td>
        <td class="number">${percent(each.memory_share)}</td>
      </tr>`)}</tbody>
    </table>
  </div>
  <${Check} label=${html`all ${integer(options.length)} ways, also those beaten in both`} checked=${every} onChange=${(/** @type {boolean} */ on) => setQuery({ every: on ? 1 : null }, { replace: true })} />`;
}

/** @param {any[]} options */
function cells(options) {
  const names = Object.keys(options[0] ?? {}).filter((name) => name !== "settings" && name !== "notes");
  const settings = Object.keys(options[0]?.settings ?? {});
  return [[...names, ...settings], ...options.map((each) => [...names.map((name) => each[name]), ...settings.map((name) => each.settings[name])])];
}
