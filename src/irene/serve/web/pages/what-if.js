// Other sizes and settings: a heat map or curves, and which number the energy follows.

import { html, useMemo, useRef, useState } from "../vendor/preact.js";
import { AnswerPage } from "../components/AnswerPage.js";
import { Busy } from "../components/Busy.js";
import { Bars, Curves } from "../components/Chart.js";
import { Entry, Notes, Segments, Units } from "../components/Controls.js";
import { useDark } from "../components/Page.js";
import { useModels } from "../components/ModelCombobox.js";
import { Problem } from "../components/Problem.js";
import { RunForm } from "../components/RunForm.js";
import { useAnswer } from "../lib/answer.js";
import { apiUrl } from "../lib/api.js";
import { inkOn, ramp } from "../lib/colour.js";
import { mapSvg } from "../lib/picture.js";
import { change, digits, integer, interval, joules } from "../lib/format.js";
import { axes, grouped, listValues, MOST_CELLS, table } from "../lib/grid.js";
import { energyPer, PER, unitWord } from "../lib/board.js";
import { calledName } from "../lib/recent.js";
import { CHOICES, FIRST_MODEL, isServing, readRun, runChanges, runOptions, USUAL } from "../lib/run.js";
import { choice, list, text, writeQuery } from "../lib/state.js";
import { commandLine } from "../lib/subjects.js";

export const title = "What if";

const WORDS = { batch_size: "batch size", seq_len: "sequence length", prompt_len: "prompt", output_len: "output" };
const SIZES = { batch_size: "1,2,4,8,16,32", seq_len: "32,64,128,256,512" };
/** Fields of configs that most models have, to begin with. */
const FIELDS = [
  ["num_hidden_layers", "6,12"], ["hidden_size", "512,768"], ["intermediate_size", "2048,3072"], ["hidden_act", "relu,gelu"],
  ["n_layer", "6,12"], ["n_embd", "512,768"], ["activation_function", "gelu_new,gelu_pytorch_tanh"],
  ["num_attention_heads", "8,12"], ["vocab_size", "30522,50265"], ["num_key_value_heads", "4,8"],
];

/**
 * @typedef {{per: string, unit: string, word: (name: string) => string, told: (name: string, value: any) => string}} Say the unit in the API's word and in
 *   ours, and settings in words
 */

/**
 * @param {string} per
 * @param {boolean} serving
 * @returns {Say}
 */
function saying(per, serving) {
  const word = (/** @type {string} */ name) => (serving && name === "batch_size" ? "streams" : WORDS[/** @type {"seq_len"} */ (name)] ?? name);
  return { per, unit: unitWord(per, serving), word, told: (name, value) => (word(name) === "streams" ? `${value} streams` : `${word(name)} ${value}`) };
}

/** @param {{query: any, setQuery: any}} props */
export default function WhatIfPage({ query, setQuery }) {
  const sets = list(query, "set");
  const serving = isServing(readRun(query));
  /** @type {Record<string, string>} */
  const usual = { ...USUAL, ...(serving ? { batch_size: "1,4,16,64,256" } : sets.length > 0 ? {} : SIZES) };
  // One size out of another page is where curves begin, not all there is.
  const one = ["batch_size", "seq_len", "prompt_len"].every((name) => !/[,:]/.test(text(query, name)));
  /** @type {Record<string, string>} */
  const run = readRun(query, usual);
  if (one && !sets.length) Object.assign(run, { batch_size: usual.batch_size }, serving ? {} : { seq_len: usual.seq_len });
  const model = text(query, "model", FIRST_MODEL);
  const [batch, seq] = [String(run.batch_size), String(run.seq_len ?? run.prompt_len ?? "")];
  const usualPer = serving ? "token" : "sequence";
  const per = choice(query, "per", [usualPer, ...PER]);
  const say = saying(per, serving);
  const [batches, lengths] = [listValues(batch), listValues(seq)];
  // One row or column is a curve.
  const views = (batches?.length ?? 0) > 1 !== (lengths?.length ?? 0) > 1 && !sets.length ? ["curve", "map"] : ["map", "curve"];
  const view = choice(query, "view", views);
  const several = (batches?.length ?? 0) * (lengths?.length ?? 0);
  const problem = !batches || !lengths ? "" : several > MOST_CELLS ? `${integer(several)} sizes are too many at once; at most ${MOST_CELLS}.` : "";
  const params = { model, ...run, set: sets };
  const answer = useAnswer(batches && lengths && !problem ? "/what-if" : null, params, { wait: 250 });
  const { document } = answer;
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  const take = {
    name: `what-if-${model}`, csv: () => cells(document), json: () => document, api: () => apiUrl("/what-if", params),
    svg: view === "curve" ? () => frame.current?.querySelector("svg") ?? null : () => drawnMap(document, say),
    cli: () => commandLine("what-if", [model], { ...runOptions(run), set: sets }),
  };
  const lede = document ? headline(document, say) : "How the energy follows sizes and settings.";
  const side = html`
    <fieldset class="group"><legend>What to vary</legend>
      <${Entry} label=${serving ? "Streams at once" : "Batch sizes"} value=${batch} problem=${batches ? "" : "Whole numbers as 1,8,32 or 8:64:8"} hint="1,8,32 or from:to:step" onChange=${(/** @type {string} */ value) => setQuery({ batch_size: value })} />
      <${Entry} label=${serving ? "Prompts" : "Sequence lengths"} value=${seq} problem=${lengths ? "" : "Whole numbers as 64,128 or 64:512:64"} onChange=${(/** @type {string} */ value) => setQuery({ [serving ? "prompt_len" : "seq_len"]: value })} />
      <${Entry} label="Fields of the config" value=${sets.join(" ")} placeholder="num_hidden_layers=6,12" hint="FIELD=VALUE,… with spaces between" onChange=${(/** @type {string} */ value) => setQuery({ set: value.split(/\s+/).filter(Boolean) })} />
      <${ConfigFields} model=${model} sets=${sets} onSet=${(/** @type {string[]} */ next) => setQuery({ set: next })} />
    </fieldset>
    <fieldset class="group"><legend>Show</legend>
      <${Units} per=${per} usual=${usualPer} serving=${serving} setQuery=${setQuery} />
      <${Segments} label="As" value=${view} options=${[["map", "heat map"], ["curve", "curves"]]} onChange=${(/** @type {string} */ value) => setQuery({ view: value === views[0] ? null : value })} />
    </fieldset>
    <${RunForm} model=${model} run=${run} resolved=${document?.spec} without=${["batch_size", "seq_len", "prompt_len"]} onModel=${(/** @type {string} */ name) => setQuery({ model: name })} onRun=${(/** @type {any} */ next, /** @type {any} */ how) => setQuery(runChanges(next, usual), how)} />`;
  return html`<${AnswerPage} name="What if" lede=${lede} on=${document?.hardware} take=${take} side=${side} answer=${answer} busy="Predicting every size" frame=${frame}>
    ${problem && html`<${Problem} error=${new Error(problem)} />`}
    ${document && html`<${Groups} document=${document} say=${say} view=${view} run=${run} model=${model} />
      <${Notes} notes=${[...new Set(document.rows.flatMap((/** @type {any} */ row) => row.notes))]} />`}
    <${Sensitivity} model=${model} run=${run} />
  </${AnswerPage}>`;
}

/**
 * Fields of the model's config with values to try: a click adds them.
 * @param {{model: string, sets: string[], onSet: (sets: string[]) => void}} props
 */
function ConfigFields({ model, sets, onSet }) {
  const config = useModels().find((each) => each.name === model)?.config ?? {};
  const offered = FIELDS.filter(([name]) => name in config && !sets.some((set) => set.startsWith(`${name}=`)));
  if (!offered.length) return null;
  const values = (/** @type {string} */ name, /** @type {string} */ usual) => {
    const now = config[name];
    return typeof now === "number" ? `${Math.max(Math.round(now / 2), 1)},${now}` : usual;
  };
  return html`<div class="field"><span>Or try</span><p class="chips">${offered.map(([name, usual]) => html`<button key=${name} type="button" class="chip" onClick=${() => onSet([...sets, `${name}=${values(name, usual)}`])}>${name} = ${values(name, usual)}</button>`)}</p></div>`;
}

/**
 * @param {any} document
 * @param {Say} say
 */
function headline(document, say) {
  const known = document.rows.filter((/** @type {any} */ row) => !Number.isNaN(energyPer(row, say.per)));
  if (!known.length) return "None of these sizes can be run.";
  const best = known.reduce((/** @type {any} */ least, /** @type {any} */ row) => (energyPer(row, say.per) < energyPer(least, say.per) ? row : least));
  const settings = Object.entries(best.settings).map(([name, value]) => say.told(name, value)).join(", ");
  return html`${calledName(document.model)} takes least with ${settings}: <strong>${joules(energyPer(best, say.per))}</strong> per ${say.unit}.`;
}

/** @param {{document: any, say: Say, view: string, run: any, model: string}} props */
function Groups({ document, say, view, run, model }) {
  const { rows, columns, others } = useMemo(() => axes(document.choices), [document]);
  const groups = useMemo(() => grouped(document.rows, others), [document]);
  const values = document.rows.map((/** @type {any} */ row) => energyPer(row, say.per)).filter(Number.isFinite);
  const scale = { least: Math.min(...values), most: Math.max(...values) };
  return html`${[...groups].map(([name, outcomes]) => html`<div class="panel" key=${name}>
    ${name && html`<h2>${name}</h2>`}
    ${view === "curve"
      ? html`<${Lines} outcomes=${outcomes} rows=${rows} columns=${columns} say=${say} />`
      : html`<${HeatMap} outcomes=${outcomes} rows=${rows} columns=${columns} say=${say} scale=${scale} run=${run} model=${model} />`}
  </div>`)}`;
}

/**
 * @param {number} value
 * @param {{least: number, most: number}} scale
 */
function level(value, { least, most }) {
  if (!(value > 0) || most <= least) return 0.15;
  return 0.05 + 0.95 * (Math.log(value / least) / Math.log(most / least));
}

/** @param {{outcomes: any[], rows: string, columns: string, say: Say, scale: any, run: any, model: string}} props */
function HeatMap({ outcomes, rows, columns, say, scale, run, model }) {
  const dark = useDark();
  const cellsOf = table(outcomes, rows, columns);
  const [shown, setShown] = useState(/** @type {any} */ (null));
  const base = outcomes[0];
  const linked = outcomes.some((each) => sizeLink(each, run, model));
  return html`<div class="table-scroll" tabindex="0" role="region" aria-label="Heat map">
    <table class="heat">
      <caption>Energy per ${say.unit}${columns ? html`; columns: ${say.word(columns)}` : ""}</caption>
      <thead><tr><th scope="col">${say.word(rows)}</th>${cellsOf.columns.map((column) => html`<th scope="col" class="number">${column}</th>`)}</tr></thead>
      <tbody>${cellsOf.rows.map((row) => html`<tr key=${row}><th scope="row" class="number">${row}</th>
        ${cellsOf.columns.map((column) => {
          const outcome = cellsOf.cell(row, column);
          const energy = outcome ? energyPer(outcome, say.per) : NaN;
          if (!outcome || Number.isNaN(energy)) return html`<td class="number none" title=${outcome?.problem ?? ""}>–</td>`;
          const at = level(energy, scale);
          const link = sizeLink(outcome, run, model);
          const inside = joules(energy);
          return html`<td class="number" style=${{ background: ramp(at, dark), color: inkOn(at, dark) }} onPointerEnter=${() => setShown(outcome)}>
            ${link ? html`<a href=${link} onFocus=${() => setShown(outcome)}>${inside}</a>` : html`<span tabindex="0" onFocus=${() => setShown(outcome)}>${inside}</span>`}</td>`;
        })}
      </tr>`)}</tbody>
    </table>
    <p class="readout" role="status">${shown ? described(shown, say, base) : html`<span class="hint">Point at a cell for its interval${linked ? "; click to explore it" : ""}.</span>`}</p>
  </div>`;
}

/**
 * @param {any} outcome
 * @param {any} run
 * @param {string} model
 */
function sizeLink(outcome, run, model) {
  const known = Object.keys(outcome.settings).every((name) => name in run || name in CHOICES);
  if (!known) return "";
  const settings = Object.fromEntries(Object.entries(outcome.settings).map(([name, value]) => [name, String(value)]));
  return `/${writeQuery({ model, ...runChanges({ ...run, ...settings }) })}`;
}

/**
 * @param {any} outcome
 * @param {Say} say
 * @param {any} base
 */
function described(outcome, say, base) {
  const energy = energyPer(outcome, say.per);
  return html`<strong>${Object.entries(outcome.settings).map(([name, value]) => say.told(name, value)).join(", ")}</strong>
    <span>${joules(energy)} per ${say.unit} <span class="hint">${interval(outcome.energy.joules, outcome.energy.low, outcome.energy.high)}</span></span>
    <span>${change(energy / energyPer(base, say.per) - 1)} against the first</span>`;
}

/** @param {{outcomes: any[], rows: string, columns: string, say: Say}} props */
function Lines({ outcomes, rows, columns, say }) {
  const numeric = (/** @type {string} */ name) => outcomes.every((each) => Number.isFinite(Number(each.settings[name])));
  const many = (/** @type {string} */ name) => new Set(outcomes.map((each) => each.settings[name])).size > 1;
  const along = columns && many(columns) && numeric(columns) ? columns : rows;
  const split = along === rows ? columns : rows;
  const { columns: kinds } = table(outcomes, along, split);
  const points = (/** @type {any} */ kind) => outcomes
    .filter((each) => (each.settings[split] ?? "") === kind && !Number.isNaN(energyPer(each, say.per)))
    .map((each) => {
      const factor = energyPer(each, say.per) / each.energy.joules;
      return { x: Number(each.settings[along]), y: energyPer(each, say.per), low: each.energy.low * factor, high: each.energy.high * factor };
    });
  const everything = kinds.flatMap(points);
  if (!numeric(along) || everything.length < 2) return html`<p class="hint">A curve needs at least two sizes of one kind.</p>`;
  return html`<${Curves}
    label=${`Energy per ${say.unit} by ${say.word(along)}`}
    curves=${kinds.map((kind) => ({ name: split ? say.told(split, kind) : "", points: points(kind).map((each) => ({ ...each, label: `${say.told(along, each.x)}: ${joules(each.y)}` })) }))}
    x=${{ label: say.word(along), log: true, format: integer, ticks: [...new Set(everything.map((each) => each.x))] }}
    y=${{ label: `energy per ${say.unit}`, format: joules, log: true }}
  />`;
}

/** @param {{model: string, run: any}} props */
function Sensitivity({ model, run }) {
  const [open, setOpen] = useState(false);
  const serving = isServing(run);
  const first = (/** @type {string} */ name) => String(run[name] ?? "").split(/[,:]/)[0];
  const one = serving ? { ...run, batch_size: first("batch_size"), prompt_len: first("prompt_len") } : { ...run, batch_size: USUAL.batch_size, seq_len: USUAL.seq_len };
  const answer = useAnswer(open ? "/what-if" : null, { model, ...one, sensitivity: "true" });
  const fields = (answer.document?.fields ?? []).filter((/** @type {any} */ each) => Number.isFinite(each.elasticity));
  return html`<details class="panel" open=${open} onToggle=${(/** @type {any} */ event) => setOpen(event.target.open)}>
    <summary><h2>Which number the energy follows</h2></summary>
    ${open && answer.busy && html`<${Busy} inline label="Trying every number of the config" />`}
    ${answer.error && html`<${Problem} error=${answer.error} retry=${answer.retry} />`}
    ${fields.length > 0 && html`<p class="hint">Energy grows by this much when the number grows by 1 %, at batch size ${one.batch_size} and ${serving ? `prompt ${one.prompt_len}` : `length ${one.seq_len}`}.</p>
      <${Bars} label="Elasticities" items=${fields.map((/** @type {any} */ each) => ({ key: each.field, label: html`<code>${each.field}</code> ${each.value}`, value: Math.max(each.elasticity, 0), text: `${digits(each.elasticity, 2)} %` }))} />`}
  </details>`;
}

/** @param {any} document */
function cells(document) {
  const names = Object.keys(document.choices);
  const head = [...names, "energy_j", "low_j", "high_j", "per_sequence_j", "per_token_j", "flops", "params", "problem"];
  return [head, ...document.rows.map((/** @type {any} */ row) => [
    ...names.map((name) => row.settings[name]), row.energy?.joules, row.energy?.low, row.energy?.high, row.per_sequence_j, row.per_token_j, row.flops, row.params, row.problem,
  ])];
}

/**
 * The heat map for a file.
 * @param {any} document
 * @param {Say} say
 * @returns {string} SVG
 */
function drawnMap(document, say) {
  const { rows, columns } = axes(document.choices);
  const cellsOf = table(document.rows, rows, columns);
  const energies = document.rows.map((/** @type {any} */ row) => energyPer(row, say.per)).filter(Number.isFinite);
  const scale = { least: Math.min(...energies), most: Math.max(...energies) };
  const heading = `${calledName(document.model)}: energy per ${say.unit}; ${say.word(rows)} down, ${say.word(columns)} across`;
  return mapSvg(heading, cellsOf.rows, cellsOf.columns, (row, column) => {
    const outcome = cellsOf.cell(row, column);
    const energy = outcome ? energyPer(outcome, say.per) : NaN;
    return Number.isNaN(energy) ? null : { level: level(energy, scale), text: joules(energy) };
  });
}
