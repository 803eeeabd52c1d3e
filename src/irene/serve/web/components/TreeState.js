// What the three views of a tree share: the state is in the address; only which nodes are
// open, and what is under the pointer, is not.

import { useCallback, useMemo, useRef, useSignal, useState } from "../vendor/preact.js";
import { choice, flag, text } from "../lib/state.js";
import { search, topLeaves } from "../lib/questions.js";
import { carryOpen, changed, groupOf, openAbove, openAt, openFor, shownOnly } from "../lib/rows.js";
import { findRow, keyOf, loadTree } from "../lib/tree.js";
import { useDark } from "./Page.js";

export const AUTO = "auto";
const MATTERS = 0.001;

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
  const setDepth = (/** @type {string} */ value, /** @type {any} */ also = {}) => {
    setQuery({ depth: value === AUTO ? null : value, ...also });
    setOpen(() => openAt(tree, depthOf(value)));
  };
  const foldAll = () => {
    setUnfolded(new Set());
    setQuery({ unfold: null });
  };
  // One step each, which "back" undoes.
  const expandAll = () => setDepth("all", tree.folded ? { unfold: 1 } : {});
  const collapseAll = () => {
    setUnfolded(new Set());
    setDepth("0", { unfold: null });
  };
  const isUnfolded = all || unfolded.size > 0;
  return { view, top, words, depthText, threshold, hovered, root, setDepth, foldAll, expandAll, collapseAll, isUnfolded };
}

/** @param {string} text @returns {number} levels below the root; -1 for "where it matters" */
function depthOf(text) {
  if (text === "all") return Infinity;
  const levels = Number(text);
  return text === AUTO || !(levels >= 0) ? -1 : levels;
}

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
