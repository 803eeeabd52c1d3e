// The first page: one run of one model, and where its energy goes.

import { html, useEffect, useMemo } from "../vendor/preact.js";
import { useAnswer } from "../lib/answer.js";
import { apiUrl } from "../lib/api.js";
import { ramp, inkOn } from "../lib/colour.js";
import { percent, plural } from "../lib/format.js";
import { headline, settings, stripParts } from "../lib/headline.js";
import { carried, FIRST_MODEL, readRun, runChanges, runOptions } from "../lib/run.js";
import { inWords } from "../lib/parameters.js";
import { calledName } from "../lib/recent.js";
import { flag, readQuery, text, writeQuery } from "../lib/state.js";
import { commandLine } from "../lib/subjects.js";
import { displayPath, keyOf, label, loadTree } from "../lib/tree.js";
import { Busy, Later } from "../components/Busy.js";
import { Intro } from "../components/Intro.js";
import { useModels } from "../components/ModelCombobox.js";
import { useDark } from "../components/Page.js";
import { Problem } from "../components/Problem.js";
import { RunForm, Where } from "../components/RunForm.js";
import { ServingFigures } from "../components/Serving.js";
import { Side } from "../components/Side.js";
import { TreeViews } from "../components/TreeViews.js";

/** @param {{query: import("../lib/state.js").Query}} place */
export const title = ({ query }) => text(query, "model", query.upload || query.answer ? "" : FIRST_MODEL);

/** @param {{query: import("../lib/state.js").Query, setQuery: (changes: any, options?: any) => void}} props */
export default function Explore({ query, setQuery }) {
  const run = readRun(query);
  const model = text(query, "model", FIRST_MODEL);
  const source = sourceOf(query, model, run);
  const answer = useAnswer(source.path, source.params);
  const { document, error, busy } = answer;
  const isNew = Object.keys(query).length === 0;
  const known = useModels().some((each) => each.name === document?.spec?.model);
  useSubject(source.kind, document, setQuery);
  // A file stays the subject: its model is predicted anew where the run is changed, and
  // Back has the file again, after a slider too.
  const anew = source.kind === "spec" ? {} : { anew: 1, answer: null };
  const change = (/** @type {Record<string, string>} */ next, /** @type {any} */ options = {}) =>
    setQuery({ ...runChanges(next), ...anew, ...(next.model ? { path: null, root: null } : {}) }, source.kind === "spec" ? options : {});
  const choose = (/** @type {string} */ name) => setQuery({ model: name, path: null, root: null, upload: null, anew: null, answer: null });
  const fixed = source.kind !== "spec" && document && !known
    ? "A saved tree has one size. Bring the config.json of its model to change sizes." : "";
  return html`<div class="explore" aria-busy=${busy}>
    ${isNew && html`<${Intro} />`}
    <div class="explore-form"><${Side}>
      <${RunForm} model=${model} onModel=${choose} run=${run} onRun=${change} resolved=${document?.spec} fixed=${fixed} curves=${source.kind === "spec" && !error} />
    </${Side}></div>
    <div class=${busy && document ? "explore-head updating" : "explore-head"}>
      ${error && !document && html`<h1 class="lead">Where does the energy go?</h1>`}
      ${error && html`<${Problem} error=${error} retry=${answer.retry} />`}
      ${flag(query, "anew") && text(query, "upload") && html`<p class="note">The model of your file, predicted anew. <a href=${`/${writeQuery({ upload: text(query, "upload") })}`}>Show the file again</a></p>`}
      ${model.startsWith("upload:") && html`<p class="soft">Your model. <a href=${`/open${writeQuery({ ...runChanges(run), upload: model.slice("upload:".length) })}`}>Predict it as a job</a>, with a message when it is ready.</p>`}
      ${document ? html`<${Head} document=${document} setQuery=${setQuery} />` : !error && html`<h1 class="lead">Where does the energy go?</h1><${Busy} label="Predicting" />`}
    </div>
    ${document && html`<${TreeViews}
      document=${document} query=${query} setQuery=${setQuery} name=${fileStem(document)}
      api=${() => apiUrl(source.path, source.params)}
      cli=${source.kind === "spec" ? () => commandLine("predict", [model], runOptions(run)) : undefined}
    />`}
    ${document?.ledger && html`<div class="explore-ledger"><${Later} load=${() => import("../components/LedgerView.js").then((part) => part.LedgerView)} label="Loading the ledger"
      ledger=${document.ledger} document=${document} query=${query} setQuery=${setQuery} api=${apiUrl(source.path, source.params)} name="program" /></div>`}
  </div>`;
}

/**
 * Where the tree comes from: a run to predict, an upload, or an answer that is kept.
 * @param {import("../lib/state.js").Query} query
 * @param {string} model
 * @param {Record<string, string>} run
 * @returns {{kind: string, path: string, params: Record<string, any>}}
 */
function sourceOf(query, model, run) {
  const [upload, answer] = [text(query, "upload"), text(query, "answer")];
  if (upload && !flag(query, "anew")) return { kind: "upload", path: `/uploads/${encodeURIComponent(upload)}`, params: {} };
  if (answer) return { kind: "answer", path: `/answers/${encodeURIComponent(answer)}`, params: {} };
  return { kind: "spec", path: "/energy", params: { model, ...run } };
}

/**
 * Model, run and machine of a file go into the address: other pages ask about the same.
 * @param {string} kind
 * @param {any} document
 * @param {(changes: any, options?: any) => void} setQuery
 */
function useSubject(kind, document, setQuery) {
  useEffect(() => {
    const spec = kind === "spec" ? null : document?.spec;
    if (!spec?.model) return;
    const given = Object.entries(spec).filter(([name, value]) => value !== null && !Array.isArray(value) && !spec.chosen?.includes(name));
    const run = Object.fromEntries(given.map(([name, value]) => [name, String(value)]));
    setQuery({ ...runChanges({ ...run, on: document.hardware?.name ?? "" }), model: spec.model }, { replace: true });
  }, [kind, document]);
}

/** @param {any} document */
function fileStem(document) {
  const { spec, hardware } = document;
  if (!spec) return "irene";
  return `${spec.model}@b${spec.batch_size}s${spec.seq_len}${hardware ? `-${hardware.name}` : ""}`;
}

/** @param {{document: any, setQuery: (changes: any) => void}} props */
function Head({ document, setQuery }) {
  const dark = useDark();
  const tree = useMemo(() => loadTree(document), [document]);
  const head = useMemo(() => headline(tree), [tree]);
  const parts = useMemo(() => stripParts(tree), [tree]);
  const notes = document.notes ?? [];
  const pin = (/** @type {number} */ row) => setQuery({ path: keyOf(tree, row) });
  return html`
    <h1 class="lead">
      <strong>${calledName(head.model)}</strong>${head.sizes && `, ${head.sizes}`}${head.where && html` on <strong title=${document.hardware?.description}>${head.where}</strong>`}:
      ${" "}<strong class="energy">${head.amount}</strong> ${head.interval && html`<span class="soft">${head.interval}</span>`}, ${head.source}
    </h1>
    ${document.hardware && html`<${Where} name=${document.hardware.name} description=${document.hardware.description} />`}
    ${document.generation && html`<${ServingFigures} document=${document} />
      <p><a href=${`/serve-plan${carried(readQuery(window.location.search))}`}>Find the cheapest set-up</a> that is quick enough.</p>`}
    <p class="lead-where">
      ${head.parts.map((part, i) => html`${i > 0 && ", "}<strong>${percent(part.share)}</strong> in ${part.text}${i === 0 && head.inside.length > 0 && html` (${shares(head.inside)})`}`)}${head.parts.length > 0 && ". "}
      By primitive: ${shares(head.primitives)}.
    </p>
    <div class="strip" role="group" aria-label="Main parts, as wide as their share">
      ${parts.map((row) => {
        const at = Math.sqrt(tree.share[row]);
        return html`<button
          type="button" key=${row} title=${`${displayPath(tree, row)}: ${percent(tree.share[row])}`}
          aria-label=${`${displayPath(tree, row)}, ${percent(tree.share[row])}: show details`}
          style=${{ flex: `${tree.share[row]} 1 0`, padding: tree.share[row] > 0.04 ? undefined : "0", background: ramp(at, dark), color: inkOn(at, dark) }}
          onClick=${() => pin(row)}
        >${tree.share[row] > 0.04 && html`<span>${label(tree, row)}${tree.times[row] > 1 ? ` ×${tree.times[row]}` : ""} ${percent(tree.share[row])}</span>`}</button>`;
      })}
    </div>
    <dl class="figures">
      ${head.per.filter(([name]) => !document.generation || !name.startsWith("per ")).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}
      ${document.spec && html`<div><dt>settings</dt><dd>${settings(document.spec).join(", ") || "–"}</dd></div>`}
      <div><dt>method</dt><dd><a href=${`/method${writeQuery({ on: document.hardware?.name }, { on: "pc1" })}`}>${document.produced_by ?? "tracing alone"}</a></dd></div>
    </dl>
    ${notes.length > 0 && html`<${Notes} notes=${notes} />`}`;
}

/** @param {{name: string, share: number}[]} list */
const shares = (list) => list.map(({ name, share }, i) => html`${i > 0 && ", "}${name} <strong>${percent(share)}</strong>`);

/** @param {{notes: string[]}} props */
function Notes({ notes }) {
  // What is to be doubted is in sight; how it was reckoned is there for who asks.
  const doubts = notes.filter((note) => /^(extrapolation|warning):/.test(note));
  const rest = [...doubts.slice(2), ...notes.filter((note) => !doubts.includes(note))];
  return html`<div>
    ${doubts.slice(0, 2).map((note) => html`<p class="note">${inWords(note)}</p>`)}
    ${rest.length > 0 && html`<details><summary>${plural(rest.length, doubts.length ? "more note" : "note")}</summary>${rest.map((note) => html`<p class="note">${inWords(note)}</p>`)}</details>`}
  </div>`;
}
