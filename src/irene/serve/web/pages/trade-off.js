// Accuracy against energy: the Pareto front, budgets, your own table.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { AnswerPage } from "../components/AnswerPage.js";
import { Chart, Scatter } from "../components/Chart.js";
import { Check, DropZone, Slider, Notes } from "../components/Controls.js";
import { useModels } from "../components/ModelCombobox.js";
import { RunForm } from "../components/RunForm.js";
import { useAnswer } from "../lib/answer.js";
import { apiUrl } from "../lib/api.js";
import { digits, interval, joules, plural } from "../lib/format.js";
import { readRun, runChanges, runOptions } from "../lib/run.js";
import { flag, number, text, writeQuery } from "../lib/state.js";
import { commandLine } from "../lib/subjects.js";
import { chosen, csvProblem, fits, frontSteps, place, ranked, sliderEnergy, sliderPosition } from "../lib/trade-off.js";

export const title = "Trade-off";

/** @param {{query: any, setQuery: any}} props */
export default function TradeOffPage({ query, setQuery }) {
  const run = readRun(query);
  const [file, setFile] = useState(/** @type {{name: string, text: string} | null} */ (null));
  // One's own table is sent along, and kept nowhere.
  const problem = file && csvProblem(file.text);
  const found = useAnswer(problem ? null : "/trade-off", run, file ? { body: file.text, type: "text/csv" } : {});
  const answer = problem ? { ...found, document: null, error: new Error(problem) } : found;
  const all = answer.document?.candidates ?? [];
  const [moved, setMoved] = useState(/** @type {Record<string, number | null>} */ ({}));
  const asked = (/** @type {string} */ name) => (moved[name] !== undefined ? moved[name] : text(query, name) === "" ? null : number(query, name, 0));
  const budget = { budget_j: asked("budget_j") ?? null, at_least: asked("at_least") ?? null };
  useEffect(() => setMoved({}), [text(query, "budget_j"), text(query, "at_least")]);
  const winner = chosen(all, budget);
  const order = ranked(all, budget);
  const picked = text(query, "model") || winner?.model || "";
  const [hover, setHover] = useState("");
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  const asks = { budget_j: text(query, "budget_j"), at_least: text(query, "at_least") };
  const take = {
    name: "trade-off", svg: () => frame.current?.querySelector("svg") ?? null, csv: () => cells(order), json: () => answer.document,
    api: file ? undefined : () => apiUrl("/trade-off", { ...run, ...asks }),
    cli: () => commandLine("trade-off", [], { ...(file ? { accuracy: file.name } : {}), ...runOptions(run), ...asks }),
  };
  const lede = answer.document ? verdict(all, budget, winner) : "Accuracy against energy.";
  const side = html`
    <fieldset class="group"><legend>Accuracies</legend>
      <p class="hint">${file ? html`From <strong>${file.name}</strong>, in this tab alone.` : "Published ones on SST-2."}</p>
      <${DropZone} small label="Drop your own CSV" accept=".csv,text/csv" onFile=${(/** @type {File} */ each) => readTable(each).then(setFile)} hint="columns model and accuracy; also energy_j per sequence" />
      ${file && html`<button type="button" onClick=${() => setFile(null)}>Back to the published ones</button>`}
    </fieldset>
    <${RunForm} run=${run} resolved=${answer.document?.run} onRun=${(/** @type {any} */ next, /** @type {any} */ how) => setQuery(runChanges(next), how)} />`;
  return html`<${AnswerPage} name="Trade-off" lede=${lede} on=${run.on} take=${take} side=${side} change="accuracies and the run" answer=${answer} busy="Predicting the models">
    <${Budgets} all=${all} budget=${budget} moved=${moved} setMoved=${setMoved} setQuery=${setQuery} />
    ${all.length > 0 && html`<div class="panel" ref=${frame}>
        <${Picture} all=${all} budget=${budget} picked=${picked} hover=${hover} onHover=${setHover} onPick=${(/** @type {string} */ model) => setQuery({ model: model === text(query, "model") ? null : model })} names=${flag(query, "names")} />
        <div class="chart-foot"><${Check} label="name every model" checked=${flag(query, "names")} onChange=${(/** @type {boolean} */ on) => setQuery({ names: on ? 1 : null }, { replace: true })} />
          <${Details} each=${all.find((/** @type {any} */ one) => one.model === (hover || picked))} run=${run} /></div>
      </div>
      <div class="panel"><${Table} order=${order} budget=${budget} winner=${winner} picked=${picked} onPick=${(/** @type {string} */ model) => setQuery({ model })} /></div>`}
    <${Notes} notes=${(answer.document?.left_out ?? []).map((/** @type {any} */ each) => `left out: ${each.model}: ${each.problem}`)} />
  </${AnswerPage}>`;
}

/** @param {File} file */
async function readTable(file) {
  return { name: file.name, text: await file.text() };
}

/**
 * @param {any[]} all
 * @param {any} budget
 * @param {any} winner
 */
function verdict(all, budget, winner) {
  const within = all.filter((each) => fits(each, budget)).length;
  const front = all.filter((each) => each.on_front);
  if (budget.budget_j === null && budget.at_least === null) {
    return html`${front.length} of ${all.length} models are on the front: none is both cheaper and more accurate. Set a budget to choose one.`;
  }
  if (!winner) return html`<strong>No model</strong> fits. Allow more energy, or ask for less accuracy.`;
  return html`Take <strong>${winner.model}</strong>: ${digits(winner.accuracy)} for ${joules(winner.energy.joules)} per sequence. ${plural(within, "model fits", "models fit")}.`;
}

/** @param {{all: any[], budget: any, moved: any, setMoved: any, setQuery: any}} props */
function Budgets({ all, budget, moved, setMoved, setQuery }) {
  const energies = all.map((each) => each.energy.joules);
  const accuracies = all.map((each) => each.accuracy);
  const [least, most] = [Math.min(...energies), Math.max(...energies)];
  const [worst, finest] = [Math.floor(Math.min(...accuracies)), Math.ceil(Math.max(...accuracies))];
  const move = (/** @type {string} */ name, /** @type {number | null} */ value) => setMoved({ ...moved, [name]: value });
  const rest = (/** @type {string} */ name, /** @type {number | null} */ value) => {
    move(name, value);
    setQuery({ [name]: value });
  };
  const energyAt = (/** @type {number} */ at) => (at >= 1000 ? null : sliderEnergy(at, least, most));
  const accuracyAt = (/** @type {number} */ at) => (at <= worst ? null : at);
  if (!all.length) return null;
  return html`<fieldset class="group budget"><legend class="visually-hidden">Budget</legend>
    <${Slider}
      label="Energy at most" min=${0} max=${1000} value=${budget.budget_j === null ? 1000 : sliderPosition(budget.budget_j, least, most)}
      text=${budget.budget_j === null ? "any" : `${joules(budget.budget_j)} per sequence`}
      onInput=${(/** @type {number} */ at) => move("budget_j", energyAt(at))} onChange=${(/** @type {number} */ at) => rest("budget_j", energyAt(at))}
    />
    <${Slider}
      label="Accuracy at least" min=${worst} max=${finest} step=${0.1} value=${budget.at_least ?? worst}
      text=${budget.at_least === null ? "any" : digits(budget.at_least)}
      onInput=${(/** @type {number} */ at) => move("at_least", accuracyAt(at))} onChange=${(/** @type {number} */ at) => rest("at_least", accuracyAt(at))}
    />
    <button type="button" disabled=${budget.budget_j === null && budget.at_least === null} onClick=${() => setQuery({ budget_j: null, at_least: null })}>No budget</button>
  </fieldset>`;
}

/** @param {{all: any[], budget: any, picked: string, hover: string, onHover: any, onPick: any, names: boolean}} props */
function Picture({ all, budget, picked, hover, onHover, onPick, names }) {
  const x = { values: all.flatMap((each) => [each.energy.low || each.energy.joules, each.energy.high]), log: true, label: "energy per sequence", format: joules };
  const y = { values: all.map((each) => each.accuracy), label: "accuracy" };
  const lit = hover || picked;
  return html`<${Chart} label=${`Accuracy against energy of ${all.length} models; the table below has the numbers`} height=${420} x=${x} y=${y} class="trade-off-chart">
    ${(/** @type {any} */ { x: sx, y: sy, width }) => html`
      ${budget.budget_j !== null && html`<rect class="out-of-budget" x=${sx(budget.budget_j)} y=${sy.range[1]} width=${Math.max(sx.range[1] - sx(budget.budget_j), 0)} height=${sy.range[0] - sy.range[1]} />`}
      ${budget.at_least !== null && html`<rect class="out-of-budget" x=${sx.range[0]} y=${sy(budget.at_least)} width=${sx.range[1] - sx.range[0]} height=${Math.max(sy.range[0] - sy(budget.at_least), 0)} />`}
      <polyline class="front-line" points=${frontSteps(all).map(([energy, accuracy]) => `${sx(energy).toFixed(1)},${sy(accuracy).toFixed(1)}`).join(" ")} />
      ${all.filter((each) => each.model === lit).map((each) => html`<line class="whisker" x1=${sx(each.energy.low)} x2=${sx(each.energy.high)} y1=${sy(each.accuracy)} y2=${sy(each.accuracy)} />`)}
      <${Scatter}
        x=${sx} y=${sy} selected=${picked} onPick=${(/** @type {any} */ point) => onPick(point.key)} onHover=${(/** @type {any} */ point) => onHover(point?.key ?? "")}
        points=${all.map((each) => ({
          x: each.energy.joules, y: each.accuracy, key: each.model, label: `${each.model}: ${digits(each.accuracy)}, ${joules(each.energy.joules)}`,
          radius: each.on_front ? 6 : 4.5, class: `${each.on_front ? "on-front" : "beaten"} ${fits(each, budget) ? "" : "faded"}`,
        }))}
      />
      ${labelled(all, lit, names, sx, sy, width).map(({ each, left, at }) => html`<text
        class=${`dot-name ${each.model === lit ? "lit" : ""} ${fits(each, budget) ? "" : "faded"}`} x=${at.x} y=${at.y} text-anchor=${left ? "end" : "start"}
      >${each.model}</text>`)}`}
  </${Chart}>`;
}

/**
 * Names that fit beside their dots without touching another.
 * @param {any[]} all
 * @param {string} lit always named
 * @param {boolean} every also those beside the front
 * @param {any} x
 * @param {any} y
 * @param {number} width
 */
function labelled(all, lit, every, x, y, width) {
  /** @type {{each: any, left: boolean, at: {x: number, y: number}, box: number[]}[]} */
  const placed = [];
  const order = [...all].sort((a, b) => rank(a, lit) - rank(b, lit));
  for (const each of order) {
    if (!every && !each.on_front && each.model !== lit) continue;
    const wide = each.model.length * 6.2;
    const [cx, cy] = [x(each.energy.joules), y(each.accuracy)];
    const sides = cx + wide + 14 > width ? [true] : [false, true];
    for (const left of sides) {
      const at = { x: left ? cx - 10 : cx + 10, y: cy + (each.on_front ? -4 : 11) };
      const box = [left ? at.x - wide : at.x, at.y - 10, left ? at.x : at.x + wide, at.y + 3];
      const free = box[0] > 60 && placed.every((other) => apart(other.box, box)) && all.every((other) => other === each || dotApart(x(other.energy.joules), y(other.accuracy), box));
      if (!free && each.model !== lit) continue;
      placed.push({ each, left, at, box });
      break;
    }
  }
  return placed;
}

/**
 * @param {any} each
 * @param {string} lit
 */
const rank = (each, lit) => (each.model === lit ? 0 : each.on_front ? 1 : 2);

/**
 * @param {number[]} a
 * @param {number[]} b left, top, right, bottom
 */
const apart = (a, b) => a[2] < b[0] || b[2] < a[0] || a[3] < b[1] || b[3] < a[1];

/**
 * @param {number} x
 * @param {number} y
 * @param {number[]} box
 */
const dotApart = (x, y, box) => x < box[0] - 4 || x > box[2] + 4 || y < box[1] - 4 || y > box[3] + 4;

/** @param {{each: any, run: any}} props */
function Details({ each, run }) {
  const models = useModels();
  if (!each) return html`<p class="hint">Point at a model, or pick one in the table.</p>`;
  const known = models.some(({ name }) => name === each.model);
  return html`<p class="readout"><strong>${known ? html`<a href=${`/${writeQuery({ model: each.model, ...runChanges(run) })}`}>${each.model}</a>` : each.model}</strong>
    <span>${digits(each.accuracy)}</span>
    <span>${joules(each.energy.joules)} <span class="hint">${[interval(each.energy.joules, each.energy.low, each.energy.high), each.energy.source].filter(Boolean).join(", ")}</span></span>
    <span>${place(each)}</span></p>`;
}

/** @param {{order: any[], budget: any, winner: any, picked: string, onPick: any}} props */
function Table({ order, budget, winner, picked, onPick }) {
  return html`<div class="table-scroll tall" tabindex="0" role="region" aria-label="Models by budget">
    <table class="data models">
      <thead><tr><th scope="col">Model</th><th scope="col" class="number">Accuracy</th><th scope="col" class="number">J per sequence</th>
        <th scope="col" class="number">Interval</th><th scope="col">Place</th><th scope="col">Source</th></tr></thead>
      <tbody>${order.map((each) => html`<tr key=${each.model} class=${`${each.model === picked ? "picked" : ""} ${fits(each, budget) ? "" : "faded-row"}`}>
        <th scope="row"><button type="button" class="link" onClick=${() => onPick(each.model)}>${each.model}</button>
          ${each === winner && html` <span class="badge">take this</span>`}</th>
        <td class="number">${digits(each.accuracy)}</td>
        <td class="number">${joules(each.energy.joules)}</td>
        <td class="number hint">${interval(each.energy.joules, each.energy.low, each.energy.high) || "as given"}</td>
        <td class=${each.on_front ? "" : "hint"}>${place(each)}</td>
        <td class="hint">${[each.split, each.source].filter(Boolean).join(" · ")}</td>
      </tr>`)}</tbody>
    </table>
  </div>`;
}

/** @param {any[]} order */
function cells(order) {
  const head = ["model", "accuracy", "energy_j", "low_j", "high_j", "energy_source", "on_front", "beaten_by", "split", "source"];
  return [head, ...order.map((each) => [each.model, each.accuracy, each.energy.joules, each.energy.low, each.energy.high, each.energy.source, each.on_front, each.beaten_by, each.split, each.source])];
}
