// Where the figures come from: method, data, how good it is, what it covers.

import { html, useEffect, useState } from "../vendor/preact.js";
import { useAnswer } from "../lib/answer.js";
import { digits, integer, percent } from "../lib/format.js";
import { featureFacts } from "../lib/features.js";
import { COVERS } from "../lib/parameters.js";
import { getOnce, post } from "../lib/api.js";
import { navigate, text } from "../lib/state.js";
import { Busy } from "../components/Busy.js";
import { Problem } from "../components/Problem.js";
import { HardwareSelect } from "../components/RunForm.js";
import { TokenField } from "../components/TokenField.js";

export const title = "Method and provenance";

const LEVELS = [["ml", "primitive"], ["module", "module"], ["model", "whole model"]];
/** @type {Record<string, string>} */
const SPLITS = {
  model: "a model it never saw",
  family: "a family it never saw",
  small: "smaller sizes than it saw",
  large: "larger sizes than it saw",
};

/** @type {Record<string, string>} */
const SERVINGS = { j_per_token: "joules per token", j_per_token_known: "joules per token, family known", step_s: "time of a step" };

/** @param {{query: any, setQuery: (changes: any) => void}} props */
export default function Method({ query, setQuery }) {
  const { document, error, busy, retry } = useAnswer("/hardware");
  const wanted = text(query, "on", "pc1");
  const entry = document?.hardware.find((/** @type {any} */ each) => nameOf(each) === wanted) ?? document?.hardware[0];
  return html`<div class="page">
    <section class="prose">
      <h1>Where the figures come from</h1>
      <p>
        A model is traced once on tensors without data: that gives every operation with its shapes, FLOPs and bytes.
        A predictor for the chosen hardware turns each primitive's shapes into joules; energies are then composed up
        the tree, with an interval at every node. Nothing is run on the hardware when you ask, and nothing you type
        leaves this server.
      </p>
      <p>
        The tree, and the composition of energies along it, are those of IrEne (Cao, Lal, Trivedi and Balasubramanian,${" "}
        <cite>IrEne: Interpretable Energy Prediction for Transformers</cite>, ACL 2021). What a predictor was made
        from, and what part of the machine its energies cover, is below; other machines use more or less.
      </p>
    </section>
    ${error && html`<${Problem} error=${error} retry=${retry} />`}
    ${busy && !document && html`<${Busy} label="Reading" />`}
    ${entry && html`<${Hardware} entry=${entry} setQuery=${setQuery} />`}
    <${Learn} />
  </div>`;
}

/** A button for servers that may measure: their own machine, in minutes. */
function Learn() {
  const [measures, setMeasures] = useState(false);
  const [state, setState] = useState(/** @type {any} */ ({ busy: false, error: null }));
  useEffect(() => {
    getOnce("/server").then((server) => setMeasures(server.measures), () => {});
  }, []);
  const learn = async () => {
    setState({ busy: true, error: null });
    try {
      navigate(`/jobs/${(await post("/jobs/learn", { plan: "quick" })).id}`);
    } catch (error) {
      setState({ busy: false, error });
    }
  };
  const needsToken = state.error?.status === 401 || state.error?.status === 403;
  return measures && html`<section class="panel" aria-labelledby="learn-title">
    <h2 id="learn-title">The machine that this server runs on</h2>
    <p>Small models and products are run on it for at most three minutes; then it is in the list of machines, and the one that is meant where nobody names another.</p>
    <p class="actions"><button type="button" class="primary" disabled=${state.busy} onClick=${learn}>Learn this machine</button></p>
    ${state.error && html`<${Problem} error=${state.error} />`}
    ${needsToken && html`<${TokenField} onToken=${learn} />`}
  </section>`;
}

/** @param {any} entry */
const nameOf = (entry) => entry.hardware?.name ?? entry.name;

/** @param {{entry: any, setQuery: (changes: any) => void}} props */
function Hardware({ entry, setQuery }) {
  const about = entry.hardware ?? entry;
  const { provenance = {}, domain = {}, widths = {} } = entry;
  return html`
    <section class="panel method-hardware" aria-labelledby="method-hardware">
      <h2 id="method-hardware">Hardware and data</h2>
      <${HardwareSelect} value=${about.name} onChange=${(/** @type {string} */ name) => setQuery({ on: name === "pc1" ? null : name })} />
      <dl class="facts wide">
        ${[
          ["machine", about.description],
          ["energy covers", COVERS[about.covers] ?? about.covers],
          ["predictor", about.predictor],
          ["learned from", provenance.data],
          ["method", provenance.method],
          ["made", [provenance.date, provenance.software].filter(Boolean).join(", ")],
          ["disturbed", Object.entries(provenance.disturbed ?? {}).map(([flag, count]) => `${flag} in ${integer(count)}`).join(", ")],
          ...scope(domain),
          ...others(provenance, ["data", "method", "date", "software", "models", "coverage"]),
          ...others(entry.datasheet, ["name", "description", "memory"]),
        ].filter(([, value]) => value).map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}
      </dl>
    </section>
    ${heldOut(entry) && html`<section class="panel" aria-labelledby="method-errors">
      <h2 id="method-errors">How far off it is, held out</h2>
      <${Errors} label="Errors held out" rows=${heldOut(entry)} />
      <p class="soft">Mean error in percent, on measurements that were kept from the predictor.</p>
    </section>`}
    ${provenance.serving?.errors && html`<section class="panel" aria-labelledby="method-serving">
      <h2 id="method-serving">How far off servings are, the model's family left out</h2>
      <${Errors} label="Errors of servings" rows=${Object.entries(provenance.serving.errors).map(([name, each]) => [SERVINGS[name] ?? name, each])} levels=${[["median", "median"], ["p90", "nine in ten below"]]} />
      <p class="soft">Error in percent, on ${provenance.serving.source}.</p>
    </section>`}
    ${widths.inside && html`<section class="panel" aria-labelledby="method-widths">
      <h2 id="method-widths">Width of the interval${provenance.coverage ? ` that holds ${percent(provenance.coverage)} of measurements` : ""}</h2>
      <${Errors} label="Widths of intervals" rows=${[["within what was measured", percents(widths.inside)], ["beyond it", percents(widths.outside)]]} sign="±" />
      <p class="soft">Runs beyond what was measured say so in a note above their tree.</p>
    </section>`}`;
}

/** @type {Record<string, string>} */
const NAMES = { trees: "fitted with", held_out: "tested on", power_of: "power measured on", host: "stands in a" };

/**
 * What else is stated, as it is.
 * @param {Record<string, any> | undefined} fields
 * @param {string[]} shown already
 * @returns {[string, string][]}
 */
function others(fields, shown) {
  const left = Object.entries(fields ?? {}).filter(([name]) => !shown.includes(name));
  const words = left.filter(([, value]) => typeof value === "string").map(([name, value]) => [NAMES[name] ?? name.replaceAll("_", " "), value]);
  return /** @type {[string, string][]} */ ([...words, ...featureFacts(Object.fromEntries(left.filter(([, value]) => typeof value === "number")))]);
}

/** @param {any} domain @returns {[string, string][]} */
function scope(domain) {
  const between = (/** @type {number[] | undefined} */ pair) => (pair ? `${integer(pair[0])} to ${integer(pair[1])}` : "");
  return [
    ["models measured", (domain.models ?? []).join(", ")],
    ["tokens per run", between(domain.tokens)],
    ["sequence lengths", between(domain.lengths)],
    ["widths of weights", between(domain.widths)],
    ["number format", domain.dtype],
    ["software", domain.software],
  ];
}

/** @param {any} entry @returns {[string, Record<string, number>][] | null} */
function heldOut(entry) {
  const errors = entry.provenance?.held_out_errors_percent;
  if (!errors) return null;
  return Object.entries(errors).map(([split, values]) => [SPLITS[split] ?? split, /** @type {any} */ (values)]);
}

/** @param {Record<string, number>} shares logarithms of a factor */
function percents(shares) {
  return Object.fromEntries(Object.entries(shares ?? {}).map(([name, value]) => [name, (Math.exp(value) - 1) * 100]));
}

/** @param {{label: string, rows: any, sign?: string, levels?: string[][]}} props */
function Errors({ label, rows, sign = "", levels = LEVELS }) {
  return html`<div class="table-scroll" tabindex="0" role="region" aria-label=${label}><table>
    <thead><tr><th scope="col">case</th>${levels.map(([, words]) => html`<th scope="col" class="right">${words}</th>`)}</tr></thead>
    <tbody>${rows.map((/** @type {[string, Record<string, number>]} */ [name, values]) => html`<tr><th scope="row">${name}</th>
      ${levels.map(([level]) => html`<td class="right">${values[/** @type {string} */ (level)] === undefined ? "–" : `${sign}${digits(values[/** @type {string} */ (level)], 2)} %`}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}
