// The tools above the views of a tree: search, depth, thresholds, and what they found.

import { html, useEffect, useState } from "../vendor/preact.js";
import { integer, percent, plural } from "../lib/format.js";
import { visibleRows } from "../lib/rows.js";
import { label } from "../lib/tree.js";
import { Choice } from "./Controls.js";
import { AUTO } from "./TreeState.js";

const THRESHOLDS = [["", "that matter"], ["0", "with energy"], ["all", "all"], ["0.001", "≥ 0.1 %"], ["0.01", "≥ 1 %"], ["0.05", "≥ 5 %"]];
const METRICS = [["total", "of total"], ["parent", "of parent"], ["log", "log"]];
const VIEWS = [["table", "Table"], ["icicle", "Icicle"], ["tree", "Tree"]];

/** @typedef {import("./TreeTable.js").View} View */

/**
 * What a search, "top 90 %" or a threshold shows; small parts are told as one.
 * @param {{view: View, top: {rows: number[], leaves: number, share: number} | null, setQuery: (changes: any) => void}} props
 */
export function Found({ view, top, setQuery }) {
  const { tree, hits, minShare } = view;
  const small = minShare > 0 ? smallParts(view) : { rows: 0, share: 0 };
  const words = [];
  if (hits) words.push(html`<strong>${plural(hits.nodes, "match", "matches")} = ${percent(hits.share)}</strong> of the ${tree.basis === "energy" ? "energy" : "cost"}`);
  if (top) words.push(html`<strong>${integer(top.rows.length)} of ${plural(top.leaves, "leaf", "leaves")}</strong> carry ${percent(top.share)}`);
  if (small.rows) words.push(html`${plural(small.rows, "part")}, ${percent(small.share)}, below ${percent(minShare)} each: <button type="button" class="link" onClick=${() => setQuery({ min_share: "0" })}>show</button>`);
  return html`<p class="found" role="status" hidden=${words.length === 0}>${words.map((each, i) => (i ? html` · ${each}` : each))}</p>`;
}

/**
 * Parts of what is open that are too small to show.
 * @param {View} view
 */
function smallParts({ tree, open, only, minShare }) {
  let [rows, share] = [0, 0];
  for (const row of visibleRows(tree, open, { only, minShare })) {
    if (!open[row]) continue;
    for (let child = row + 1; child < tree.end[row]; child = tree.end[child]) {
      if (tree.share[child] > 0 && tree.share[child] < minShare) {
        rows += tree.count[child];
        share += tree.share[child];
      }
    }
  }
  return { rows, share };
}

/** @param {{tree: import("../lib/tree.js").Tree, root: number, setRoot: (row: number) => void}} props */
export function Crumbs({ tree, root, setRoot }) {
  const above = [];
  for (let row = tree.parent[root]; row >= 0; row = tree.parent[row]) above.unshift(row);
  return html`<nav class="crumbs" aria-label="Above this part">
    ${above.map((row) => html`<button type="button" onClick=${() => setRoot(row)}>${label(tree, row)}</button><span aria-hidden="true">›</span>`)}
    <span aria-current="true">${label(tree, root)}</span>
  </nav>`;
}

/** @param {{state: ReturnType<typeof import("./TreeState.js").useTreeView>, kind: string, setQuery: (changes: any, options?: any) => void, children?: any}} props */
export function Tools({ state, kind, setQuery, children }) {
  const { view, top, words, depthText, threshold, setDepth, foldAll, expandAll, collapseAll, isUnfolded } = state;
  const [typed, setTyped] = useState(words);
  useEffect(() => setTyped(words), [words]);
  const find = (/** @type {string} */ value) => {
    setTyped(value);
    setQuery({ search: value || null }, { replace: true });
  };
  const depths = [[AUTO, "where it matters"], ["0", "the root alone"], ["1", "1 level"], ...["2", "3", "4", "5"].map((n) => [n, `${n} levels`]), ["all", "all levels"]];
  if (!depths.some(([name]) => name === depthText)) depths.unshift([depthText, `${depthText} levels`]);
  return html`<div class="view-tools"><div class="toolbar">
    <div class="segments" role="group" aria-label="View">
      ${VIEWS.map(([name, text]) => html`<button type="button" aria-pressed=${kind === name} onClick=${() => setQuery({ view: name === "table" ? null : name })}>${text}</button>`)}
    </div>
    <input type="search" data-search aria-label="Search parts" placeholder="Search parts  ( / )" value=${typed} onInput=${(/** @type {any} */ e) => find(e.target.value)} />
    <button type="button" aria-pressed=${Boolean(top)} title="Only the fewest leaves that carry 90 %" onClick=${() => setQuery({ top: top ? null : 1 })}>Top 90 %</button>
    <${Choice} label="Depth" value=${depthText} options=${depths} onChange=${(/** @type {string} */ value) => setDepth(value)} />
    ${children}
  </div><div class="toolbar">
    <${Choice} label="Parts" value=${threshold} options=${THRESHOLDS} onChange=${(/** @type {string} */ value) => setQuery({ min_share: value || null })} />
    <${Choice} label="Share" value=${view.metric} options=${METRICS} onChange=${(/** @type {string} */ value) => setQuery({ metric: value === "total" ? null : value })} />
    <button type="button" onClick=${expandAll}>Expand all</button>
    <button type="button" onClick=${collapseAll}>Collapse to the root</button>
    ${(view.tree.folded || isUnfolded) && html`<button
      type="button" aria-pressed=${isUnfolded} title="Show equal layers one by one"
      onClick=${() => (isUnfolded ? foldAll() : setQuery({ unfold: 1 }))}
    >Unfold layers</button>`}
  </div></div>`;
}
