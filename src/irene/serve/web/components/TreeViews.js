// The three linked views of one tree, with their tools, details and list. The state is in
// the address; only which nodes are open is not.

import { html, useCallback, useEffect, useMemo, useRef, useSignal, useState } from "../vendor/preact.js";
import { integer, percent, plural } from "../lib/format.js";
import { icicleSvg, nodeLinkSvg, treeRows } from "../lib/picture.js";
import { choice, flag, text } from "../lib/state.js";
import { search, topLeaves } from "../lib/questions.js";
import { carryOpen, openMain, openTo, visibleRows, withAncestors, withDescendants } from "../lib/rows.js";
import { findRow, keyOf, label, loadTree } from "../lib/tree.js";
import { ExportMenu } from "./ExportMenu.js";
import { Icicle, Tip } from "./Icicle.js";
import { NodeDetails } from "./NodeDetails.js";
import { NodeLink } from "./NodeLink.js";
import { NodeList } from "./NodeList.js";
import { useDark } from "./Page.js";
import { Legend, TreeTable } from "./TreeTable.js";

const AUTO = "auto";
const OVERVIEW_LEVELS = 5;
const MATTERS = 0.001;
const THRESHOLDS = [["", "that matter"], ["0", "that cost energy"], ["all", "all, also free ones"], ["0.001", "≥ 0.1 %"], ["0.01", "≥ 1 %"], ["0.05", "≥ 5 %"]];
const METRICS = [["total", "of the total"], ["parent", "of the parent"], ["log", "of the total, log"]];
const VIEWS = [["table", "Table"], ["icicle", "Icicle"], ["tree", "Tree"]];

/** @typedef {import("./TreeTable.js").View} View */

/**
 * Everything the views share, out of the document and the address.
 * @param {any} document
 * @param {import("../lib/state.js").Query} query
 * @param {(changes: any, options?: any) => void} setQuery
 */
export function useTreeView(document, query, setQuery) {
  const dark = useDark();
  const all = flag(query, "unfold");
  const [unfolded, setUnfolded] = useState(/** @type {Set<string>} */ (new Set()));
  const tree = useMemo(() => loadTree(document, { unfolded, all }), [document, unfolded, all]);
  const words = text(query, "search");
  const hits = useMemo(() => search(tree, words), [tree, words]);
  const top = useMemo(() => (flag(query, "top") ? topLeaves(tree) : null), [tree, query.top]);
  const only = useMemo(() => shownOnly(tree, hits, top), [tree, hits, top]);
  const threshold = text(query, "min_share");
  const depthText = text(query, "depth", AUTO);
  const depth = depthOf(depthText);
  const usual = depth < 0 && !words && !top ? MATTERS : 0;
  const minShare = threshold === "all" ? -1 : threshold === "" ? usual : Math.max(Number(threshold) || 0, 0);
  const [open, setOpen] = useOpen(tree, depth, only);
  const hovered = useSignal(-1);
  const selected = query.path === undefined ? -1 : findRow(tree, text(query, "path"));
  const root = query.root === undefined ? 0 : Math.max(findRow(tree, text(query, "root")), 0);

  const select = useCallback(
    (/** @type {number} */ row) => {
      // Looking around is no step that "back" should undo one by one.
      setQuery({ path: row < 0 ? null : keyOf(tree, row) }, { replace: true });
      if (row >= 0) setOpen((old) => openAbove(tree, old, row));
    },
    [tree, setQuery],
  );
  const unfold = (/** @type {number} */ row) => {
    if (tree.count[row] > 1) setUnfolded(new Set([...unfolded, tree.path[row]]));
    else {
      // Any member folds its group again.
      const group = groupOf(tree, row, unfolded);
      if (group !== null) setUnfolded(new Set([...unfolded].filter((path) => path !== group)));
    }
  };
  /** @type {View} */
  const view = {
    tree, open, hits, only, minShare, dark, selected, select, unfold,
    metric: /** @type {View["metric"]} */ (choice(query, "metric", ["total", "parent", "log"])),
    hover: (row) => (hovered.value = row),
    toggle: (row, wanted) => setOpen((old) => changed(old, [row], wanted ?? !old[row])),
    toggleMany: (rows, wanted) => setOpen((old) => changed(old, rows, wanted)),
  };
  const setDepth = (/** @type {string} */ value) => {
    setQuery({ depth: value === AUTO ? null : value });
    setOpen(() => openAt(tree, depthOf(value)));
  };
  const foldAll = () => {
    setUnfolded(new Set());
    setQuery({ unfold: null });
  };
  const isUnfolded = all || unfolded.size > 0;
  return { view, top, words, depthText, threshold, hovered, root, setDepth, foldAll, isUnfolded };
}

/**
 * @param {import("../lib/tree.js").Tree} tree
 * @param {import("../lib/questions.js").Search | null} hits
 * @param {{rows: number[]} | null} top
 */
function shownOnly(tree, hits, top) {
  let only = hits && withAncestors(tree, withDescendants(tree, hits.hits));
  if (top) {
    const marked = new Uint8Array(tree.size);
    for (const row of top.rows) marked[row] = 1;
    const best = withAncestors(tree, marked);
    only = only ? only.map((value, row) => value & best[row]) : best;
  }
  return only;
}

/** @param {string} text @returns {number} levels below the root; -1 for "where it matters" */
function depthOf(text) {
  if (text === "all") return Infinity;
  const levels = Number(text);
  return text === AUTO || !(levels >= 0) ? -1 : levels;
}

/**
 * @param {import("../lib/tree.js").Tree} tree
 * @param {number} depth
 */
const openAt = (tree, depth) => (depth < 0 ? openMain(tree) : openTo(tree, depth));

/**
 * @param {{tree: import("../lib/tree.js").Tree, open: Uint8Array, depth: number}} old
 * @param {import("../lib/tree.js").Tree} tree
 */
function carried(old, tree) {
  const same = old.tree.nodes[0]?.op === tree.nodes[0]?.op && old.tree.document.spec?.model === tree.document.spec?.model;
  return same ? carryOpen(old.tree, old.open, tree, Math.max(old.depth, 0)) : openAt(tree, old.depth);
}

/**
 * Which rows are open: by depth at first, then by hand; kept when sizes change.
 * @param {import("../lib/tree.js").Tree} tree
 * @param {number} depth
 * @param {Uint8Array | null} only what a search or "top 90 %" wants to see is opened
 * @returns {[Uint8Array, (change: (old: Uint8Array) => Uint8Array) => void]}
 */
function useOpen(tree, depth, only) {
  const memory = useRef(/** @type {{tree: import("../lib/tree.js").Tree, depth: number, only: Uint8Array | null, open: Uint8Array} | null} */ (null));
  const [, redraw] = useState(0);
  const old = memory.current;
  if (!old || old.depth !== depth) memory.current = { tree, depth, only: null, open: openAt(tree, depth) };
  else if (old.tree !== tree) memory.current = { tree, depth, only: null, open: carried(old, tree) };
  const now = /** @type {NonNullable<typeof old>} */ (memory.current);
  if (only && now.only !== only) now.open = openFor(tree, now.open, only);
  now.only = only;
  const set = useCallback((/** @type {(old: Uint8Array) => Uint8Array} */ change) => {
    if (memory.current) memory.current.open = change(memory.current.open);
    redraw((n) => n + 1);
  }, []);
  return [now.open, set];
}

/**
 * Opens what leads to the rows that are wanted, not what is inside them.
 * @param {import("../lib/tree.js").Tree} tree
 * @param {Uint8Array} open
 * @param {Uint8Array} only
 */
function openFor(tree, open, only) {
  const result = Uint8Array.from(open);
  for (let row = 1; row < tree.size; row++) {
    const above = tree.parent[row];
    const whole = tree.end[above] - above - 1;
    if (only[row] && whole > 0 && !allBelow(tree, only, above)) result[above] = 1;
  }
  result[0] = 1;
  return result;
}

/**
 * @param {import("../lib/tree.js").Tree} tree
 * @param {Uint8Array} only
 * @param {number} row
 */
function allBelow(tree, only, row) {
  for (let child = row + 1; child < tree.end[row]; child = tree.end[child]) if (!only[child]) return false;
  return true;
}

/**
 * @param {Uint8Array} old
 * @param {number[]} rows
 * @param {boolean} open
 */
function changed(old, rows, open) {
  const next = Uint8Array.from(old);
  for (const row of rows) next[row] = open ? 1 : 0;
  return next;
}

/**
 * @param {import("../lib/tree.js").Tree} tree
 * @param {Uint8Array} open
 * @param {number} row
 */
function openAbove(tree, open, row) {
  const next = Uint8Array.from(open);
  for (let above = tree.parent[row]; above >= 0; above = tree.parent[above]) next[above] = 1;
  return next;
}

/**
 * The unfolded group that a row, or what it is in, came out of.
 * @param {import("../lib/tree.js").Tree} tree
 * @param {number} row
 * @param {Set<string>} unfolded
 */
function groupOf(tree, row, unfolded) {
  for (let at = row; at > 0; at = tree.parent[at]) {
    const members = tree.nodes[at].members;
    if (!members || tree.count[at] > 1) continue;
    const above = tree.path[tree.parent[at]];
    const first = /** @type {{name: string}} */ (members[0]).name;
    const path = first.startsWith("/") ? first.slice(1) : above ? `${above}.${first}` : first;
    if (unfolded.has(path)) return path;
  }
  return null;
}

/**
 * @param {{document: any, query: import("../lib/state.js").Query, setQuery: (changes: any, options?: any) => void,
 *   name: string, api?: () => string, cli?: () => string, children?: any}} props name: of exported
 *   files; children: more beside the views
 */
export function TreeViews({ document, query, setQuery, name, api, cli, children }) {
  const state = useTreeView(document, query, setQuery);
  const { view, root, hovered, top } = state;
  const { tree, minShare, metric, dark } = view;
  const kind = choice(query, "view", ["table", "icicle", "tree"]);
  const pointer = useSignal([0, 0]);
  const by = /** @type {"node" | "class" | "primitive"} */ (choice(query, "by", ["node", "class", "primitive"]));
  const setRoot = (/** @type {number} */ row) => setQuery({ root: row <= 0 ? null : keyOf(tree, row) });
  const options = { root, metric, dark, minShare: Math.max(minShare, 0) };
  const picture = () =>
    kind === "tree" ? nodeLinkSvg(tree, visibleRows(tree, view.open, view), options) : icicleSvg(tree, options);
  return html`
    <div class="explore-main">
      <section class="panel view-panel" aria-label="The model, part by part" onPointerMove=${(/** @type {PointerEvent} */ e) => (pointer.value = [e.clientX, e.clientY])}>
        <${Tools} state=${state} kind=${kind} setQuery=${setQuery}>
          <${ExportMenu} name=${name} svg=${picture} csv=${() => treeRows(tree, view)} json=${() => document} api=${api} cli=${cli} />
        </${Tools}>
        <${Found} view=${view} top=${top} setQuery=${setQuery} />
        ${root > 0 && kind !== "table" && html`<${Crumbs} tree=${tree} root=${root} setRoot=${setRoot} />`}
        ${kind === "table" && html`
          <${Icicle} view=${view} root=${0} setRoot=${(/** @type {number} */ row) => view.select(row)} height=${20} levels=${OVERVIEW_LEVELS} label="Overview of the model" />
          <${TreeTable} view=${view} />`}
        ${kind === "icicle" && html`<${Icicle} view=${view} root=${root} setRoot=${setRoot} roomy />`}
        ${kind === "tree" && html`<${NodeLink} view=${view} root=${root} setRoot=${setRoot} />`}
        <${Tip} view=${view} hovered=${hovered} pointer=${pointer} />
      </section>
      <p class="toolbar below-view"><${Legend} view=${view} /><span class="spacer"></span><span class="soft">${integer(tree.nodeCount)} nodes${tree.folded ? `, equal ones folded into ${integer(tree.size)}` : ""}</span></p>
    </div>
    <div class="explore-side">
      ${children}
      <${Details} view=${view} hovered=${hovered} onOpen=${kind === "table" ? undefined : setRoot} />
      <${NodeList} view=${view} by=${by} top=${top} setBy=${(/** @type {string} */ v) => setQuery({ by: v === "node" ? null : v })} />
    </div>`;
}

/** @param {{view: View, hovered: {value: number}, onOpen?: (row: number) => void}} props */
function Details({ view, hovered, onOpen }) {
  const over = hovered.value < view.tree.size ? hovered.value : -1;
  // What is under the pointer wins; what is pinned stays when the pointer leaves.
  const row = over >= 0 ? over : Math.max(view.selected, 0);
  return html`<${NodeDetails} view=${view} row=${row} pinned=${view.selected === row && row >= 0 && view.selected >= 0} hovering=${over >= 0} onOpen=${onOpen} />`;
}

/**
 * What a search, "top 90 %" or a threshold shows; small parts are told as one.
 * @param {{view: View, top: {rows: number[], leaves: number, share: number} | null, setQuery: (changes: any) => void}} props
 */
function Found({ view, top, setQuery }) {
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
function Crumbs({ tree, root, setRoot }) {
  const above = [];
  for (let row = tree.parent[root]; row >= 0; row = tree.parent[row]) above.unshift(row);
  return html`<nav class="crumbs" aria-label="Above this part">
    ${above.map((row) => html`<button type="button" onClick=${() => setRoot(row)}>${label(tree, row)}</button><span aria-hidden="true">›</span>`)}
    <span aria-current="true">${label(tree, root)}</span>
  </nav>`;
}

/** @param {{state: ReturnType<typeof useTreeView>, kind: string, setQuery: (changes: any, options?: any) => void, children?: any}} props */
function Tools({ state, kind, setQuery, children }) {
  const { view, top, words, depthText, threshold, setDepth, foldAll, isUnfolded } = state;
  const [typed, setTyped] = useState(words);
  useEffect(() => setTyped(words), [words]);
  const find = (/** @type {string} */ value) => {
    setTyped(value);
    setQuery({ search: value || null }, { replace: true });
  };
  const option = (/** @type {string[][]} */ list, /** @type {string} */ value) =>
    list.map(([name, text]) => html`<option value=${name} selected=${name === value}>${text}</option>`);
  const depths = [[AUTO, "where it matters"], ["0", "the root alone"], ["1", "1 level"], ...["2", "3", "4", "5"].map((n) => [n, `${n} levels`]), ["all", "all levels"]];
  if (!depths.some(([name]) => name === depthText)) depths.unshift([depthText, `${depthText} levels`]);
  return html`<div class="view-tools toolbar">
    <div class="segments" role="group" aria-label="View">
      ${VIEWS.map(([name, text]) => html`<button type="button" aria-pressed=${kind === name} onClick=${() => setQuery({ view: name === "table" ? null : name })}>${text}</button>`)}
    </div>
    <input type="search" data-search aria-label="Search parts" placeholder="Search parts  ( / )" value=${typed} onInput=${(/** @type {any} */ e) => find(e.target.value)} />
    <button type="button" aria-pressed=${Boolean(top)} title="Only the fewest leaves that carry 90 %" onClick=${() => setQuery({ top: top ? null : 1 })}>Top 90 %</button>
    <select aria-label="Depth" value=${depthText} onChange=${(/** @type {any} */ e) => setDepth(e.target.value)}>${option(depths, depthText)}</select>
    <select aria-label="Parts to show" value=${threshold} onChange=${(/** @type {any} */ e) => setQuery({ min_share: e.target.value || null })}>${option(THRESHOLDS, threshold)}</select>
    <select aria-label="Share" value=${view.metric} onChange=${(/** @type {any} */ e) => setQuery({ metric: e.target.value === "total" ? null : e.target.value })}>${option(METRICS, view.metric)}</select>
    <button type="button" onClick=${() => (setQuery({ unfold: view.tree.folded || isUnfolded ? 1 : null, depth: "all" }))}>Expand all</button>
    <button type="button" onClick=${() => (foldAll(), setDepth("0"))}>Collapse to the root</button>
    ${(view.tree.folded || isUnfolded) && html`<button
      type="button" aria-pressed=${isUnfolded} title="Show equal layers one by one"
      onClick=${() => (isUnfolded ? foldAll() : setQuery({ unfold: 1 }))}
    >Unfold layers</button>`}
    <span class="spacer"></span>
    ${children}
  </div>`;
}

