// The first page: one run of one model, and where its energy goes.

import { html, useEffect, useMemo, useState } from "../vendor/preact.js";
import { useAnswer } from "../lib/answer.js";
import { apiUrl } from "../lib/api.js";
import { ramp, inkOn } from "../lib/colour.js";
import { percent } from "../lib/format.js";
import { headline, settings, stripParts } from "../lib/headline.js";
import { cliCommand, DEFAULTS, forAddress, readSpec } from "../lib/spec.js";
import { text, writeQuery } from "../lib/state.js";
import { displayPath, keyOf, label, loadTree } from "../lib/tree.js";
import { Busy } from "../components/Busy.js";
import { useDark } from "../components/Page.js";
import { Problem } from "../components/Problem.js";
import { SpecForm } from "../components/SpecForm.js";
import { TreeViews } from "../components/TreeViews.js";

/** @param {{query: import("../lib/state.js").Query}} place */
export const title = ({ query }) => text(query, "model", query.upload || query.answer ? "" : DEFAULTS.model);

/** @param {{query: import("../lib/state.js").Query, setQuery: (changes: any, options?: any) => void}} props */
export default function Explore({ query, setQuery }) {
  const spec = readSpec(query);
  const source = sourceOf(query, spec);
  const answer = useAnswer(source.path, source.params);
  const { document, error, busy } = answer;
  const change = (/** @type {Record<string, any>} */ changes, /** @type {any} */ options) => {
    const gone = "model" in changes ? { path: null, root: null } : {};
    setQuery({ ...forAddress(changes), ...gone, upload: null, answer: null }, options);
  };
  const shownSpec = source.kind === "spec" ? spec : { ...spec, ...known(document?.spec) };
  return html`<div class="explore" aria-busy=${busy}>
    <${FormPanel}><${SpecForm} value=${shownSpec} onChange=${change} resolved=${document?.spec} /></${FormPanel}>
    <div class=${busy && document ? "explore-head updating" : "explore-head"}>
      ${error && html`<${Problem} error=${error} retry=${answer.retry} />`}
      ${document ? html`<${Head} document=${document} setQuery=${setQuery} />` : !error && html`<h1 class="lead">Where does the energy go?</h1><${Busy} label="Predicting" />`}
    </div>
    ${document && html`<${TreeViews}
      document=${document} query=${query} setQuery=${setQuery} name=${fileStem(document)}
      api=${() => apiUrl(source.path, source.params)}
      cli=${source.kind === "spec" ? () => cliCommand(spec) : undefined}
    />`}
    ${document?.ledger && html`<${LazyLedger} document=${document} query=${query} setQuery=${setQuery} api=${apiUrl(source.path, source.params)} />`}
  </div>`;
}

/**
 * Where the tree comes from: a run to predict, an upload, or an answer that is kept.
 * @param {import("../lib/state.js").Query} query
 * @param {Record<string, string | number>} spec
 * @returns {{kind: string, path: string, params: Record<string, any>}}
 */
function sourceOf(query, spec) {
  const [upload, answer] = [text(query, "upload"), text(query, "answer")];
  if (upload) return { kind: "upload", path: `/uploads/${encodeURIComponent(upload)}`, params: {} };
  if (answer) return { kind: "answer", path: `/answers/${encodeURIComponent(answer)}`, params: {} };
  return { kind: "spec", path: "/energy", params: spec };
}

/** @param {any} spec of a document: only what is known of it */
function known(spec) {
  return Object.fromEntries(Object.entries(spec ?? {}).filter(([name, value]) => value !== null && name in DEFAULTS));
}

/** @param {any} document */
function fileStem(document) {
  const { spec, hardware } = document;
  if (!spec) return "irene";
  return `${spec.model}@b${spec.batch_size}s${spec.seq_len}${hardware ? `-${hardware.name}` : ""}`;
}

/** On a phone the form folds away: the result comes first. @param {{children?: any}} props */
function FormPanel({ children }) {
  const query = "(max-width: 860px)";
  const [narrow, setNarrow] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const look = () => setNarrow(media.matches);
    media.addEventListener("change", look);
    return () => media.removeEventListener("change", look);
  }, []);
  if (!narrow) return html`<aside class="panel explore-form" aria-label="Choose the run">${children}</aside>`;
  return html`<details class="panel explore-form fold-form"><summary>Change model, sizes and hardware</summary>${children}</details>`;
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
      <strong>${head.model}</strong>${head.sizes && `, ${head.sizes}`}${head.where && html` on <strong>${head.where}</strong>`}:
      ${" "}<strong class="energy">${head.amount}</strong> ${head.interval && html`<span class="soft">${head.interval}</span>`}, ${head.source}
    </h1>
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
      ${head.per.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}
      <div><dt>settings</dt><dd>${settings(document.spec).join(", ") || "–"}</dd></div>
      <div><dt>method</dt><dd><a href=${`/method${writeQuery({ hardware: document.hardware?.name }, { hardware: "pc1" })}`}>${document.produced_by ?? "tracing alone"}</a></dd></div>
    </dl>
    ${notes.length > 0 && html`<${Notes} notes=${notes} />`}`;
}

/** @param {{name: string, share: number}[]} list */
const shares = (list) => list.map(({ name, share }, i) => html`${i > 0 && ", "}${name} <strong>${percent(share)}</strong>`);

/**
 * Power over time and the tables of a ledger; its script is loaded for ledgers alone.
 * @param {{document: any, query: any, setQuery: any, api: string}} props
 */
function LazyLedger({ document, query, setQuery, api }) {
  const [View, setView] = useState(/** @type {any} */ (null));
  useEffect(() => {
    import("../components/LedgerView.js").then((module) => setView(() => module.LedgerView));
  }, []);
  return html`<div class="explore-ledger">
    ${View ? html`<${View} ledger=${document.ledger} document=${document} query=${query} setQuery=${setQuery} api=${api} name="program" />` : html`<${Busy} label="Loading the ledger" />`}
  </div>`;
}

/** @param {{notes: string[]}} props */
function Notes({ notes }) {
  return html`<div>
    ${notes.slice(0, 2).map((note) => html`<p class="note">${note}</p>`)}
    ${notes.length > 2 && html`<details><summary>${notes.length - 2} more notes</summary>${notes.slice(2).map((note) => html`<p class="note">${note}</p>`)}</details>`}
  </div>`;
}
