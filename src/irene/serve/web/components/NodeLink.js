// IrEne-viz's own view: boxes and lines, opened and closed by a click, colour = share.
// Only what is inside the window is drawn, so that ten thousand open nodes stay quick.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { inkOn, ramp } from "../lib/colour.js";
import { percent } from "../lib/format.js";
import { amount } from "../lib/headline.js";
import { BOX, layoutNodeLink } from "../lib/node-link.js";
import { visibleRows } from "../lib/rows.js";
import { hasChildren, label } from "../lib/tree.js";
import { fit } from "./Icicle.js";
import { shareOf } from "./TreeTable.js";

const AROUND = 400;

/**
 * @param {{view: import("./TreeTable.js").View, root: number, setRoot: (row: number) => void}} props
 */
export function NodeLink({ view, root, setRoot }) {
  const { tree, open, only, minShare } = view;
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  const [part, setPart] = useState({ top: 0, left: 0, width: 1200, height: 800 });
  const [active, setActive] = useState(root);
  const wantsFocus = useRef(false);
  const picture = useMemo(
    () => layoutNodeLink(tree, root, visibleRows(tree, open, { only, minShare })),
    [tree, root, open, only, minShare],
  );
  const look = () => {
    const element = frame.current;
    if (element) setPart({ top: element.scrollTop, left: element.scrollLeft, width: element.clientWidth, height: element.clientHeight });
  };
  useEffect(() => {
    look();
    const watch = new ResizeObserver(look);
    if (frame.current) watch.observe(frame.current);
    return () => watch.disconnect();
  }, []);
  useEffect(() => setActive(root), [root]);
  // The root stays in sight when the picture changes its height around it.
  useLayoutEffect(() => {
    const [element, top] = [frame.current, picture.nodes[0]];
    if (!element || !top) return;
    if (top.y < element.scrollTop || top.y > element.scrollTop + element.clientHeight) {
      const at = picture.nodes.find(({ row }) => row === active) ?? top;
      element.scrollTop = at.y - element.clientHeight / 2;
      look();
    }
  }, [picture]);

  const current = picture.nodes.findIndex(({ row }) => row === active);
  const go = (/** @type {number} */ index) => {
    const node = picture.nodes[index];
    if (!node) return;
    wantsFocus.current = true;
    setActive(node.row);
    view.hover(node.row);
    const element = /** @type {HTMLElement} */ (frame.current);
    if (node.y < element.scrollTop + 30 || node.y > element.scrollTop + element.clientHeight - 30) element.scrollTop = node.y - element.clientHeight / 2;
    if (node.x < element.scrollLeft || node.x + BOX.width > element.scrollLeft + element.clientWidth) element.scrollLeft = node.x - 60;
    look();
  };
  useLayoutEffect(() => {
    if (!wantsFocus.current) return;
    const element = frame.current?.querySelector(`[data-row="${active}"]`);
    if (element instanceof SVGElement) {
      element.focus({ preventScroll: true });
      wantsFocus.current = false;
    }
  });
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (onLinkKey(event.key, { view, picture, index: Math.max(current, 0), go, setRoot, root })) event.preventDefault();
  };
  const shown = inWindow(picture.nodes, part);
  return html`<div class="node-link" ref=${frame} onScroll=${look}>
    <svg width=${picture.width} height=${picture.height} role="tree" aria-label="Tree of the model" onKeyDown=${onKeyDown}>
      <g aria-hidden="true">${shown.edges.map(([from, to]) => html`<path class="edge" d=${edge(from, to)} />`)}</g>
      ${shown.nodes.map((node) => html`<${Box} key=${node.row} view=${view} node=${node} active=${node.row === active} onPick=${() => (setActive(node.row), view.hover(-1))} />`)}
    </svg>
  </div>`;
}

/**
 * @param {import("../lib/node-link.js").Placed[]} nodes
 * @param {{top: number, left: number, width: number, height: number}} part
 */
function inWindow(nodes, part) {
  const [top, bottom] = [part.top - AROUND, part.top + part.height + AROUND];
  const inside = (/** @type {{y: number}} */ node) => node.y >= top && node.y <= bottom;
  /** @type {[import("../lib/node-link.js").Placed, import("../lib/node-link.js").Placed][]} */
  const edges = [];
  for (const node of nodes) {
    const parent = nodes[node.above];
    if (parent && Math.max(node.y, parent.y) >= top && Math.min(node.y, parent.y) <= bottom) edges.push([parent, node]);
  }
  return { nodes: nodes.filter((node, i) => i === 0 || inside(node)), edges };
}

/**
 * @param {{x: number, y: number}} from
 * @param {{x: number, y: number}} to
 */
function edge(from, to) {
  const [x0, x1] = [from.x + BOX.width, to.x];
  const middle = (x0 + x1) / 2;
  return `M${x0},${from.y}C${middle},${from.y} ${middle},${to.y} ${x1},${to.y}`;
}

/** @param {{view: import("./TreeTable.js").View, node: import("../lib/node-link.js").Placed, active: boolean, onPick: () => void}} props */
function Box({ view, node, active, onPick }) {
  const { tree, dark } = view;
  const { row, x, y } = node;
  const parent = hasChildren(tree, row);
  const isOpen = Boolean(view.open[row]);
  const { share, at } = shareOf(view, row);
  const ink = inkOn(at, dark);
  const times = tree.count[row] > 1 ? ` ×${tree.count[row]}` : "";
  const mark = parent ? (isOpen ? "▾ " : "▸ ") : "";
  const room = Math.floor((BOX.width - 22) / 6.9) - percent(share).length - mark.length;
  const faint = view.hits && !view.hits.hits[row];
  return html`<g
    role="treeitem" data-row=${row} data-path=${tree.path[row]} tabindex=${active ? 0 : -1}
    transform=${`translate(${x} ${y - BOX.height / 2})`}
    aria-level=${tree.depth[row] + 1} aria-expanded=${parent ? isOpen : undefined} aria-selected=${view.selected === row}
    aria-label=${`${label(tree, row)}${times}, ${amount(tree, row)}, ${percent(tree.share[row])} of the total`}
    onClick=${() => (onPick(), view.select(row), parent && view.toggle(row))}
    onPointerEnter=${() => view.hover(row)} onPointerLeave=${() => view.hover(-1)}
  >
    <rect width=${BOX.width} height=${BOX.height} rx="4" style=${{ fill: ramp(at, dark), fillOpacity: faint ? 0.35 : 1 }} />
    <text x="8" y=${BOX.height / 2} dy="0.35em" style=${{ fill: faint ? "var(--ink)" : ink }}>${mark}${fit(`${label(tree, row)}${times}`, room)}</text>
    <text x=${BOX.width - 8} y=${BOX.height / 2} dy="0.35em" text-anchor="end" style=${{ fill: faint ? "var(--ink)" : ink }}>${percent(share)}</text>
  </g>`;
}

/**
 * @param {string} key
 * @param {{view: import("./TreeTable.js").View, picture: ReturnType<typeof layoutNodeLink>, index: number,
 *   go: (index: number) => void, setRoot: (row: number) => void, root: number}} at
 */
function onLinkKey(key, { view, picture, index, go, setRoot, root }) {
  const { tree } = view;
  const { nodes } = picture;
  const node = /** @type {import("../lib/node-link.js").Placed} */ (nodes[index]);
  const parent = hasChildren(tree, node.row);
  const isOpen = Boolean(view.open[node.row]);
  /** @type {Record<string, () => void>} */
  const keys = {
    ArrowDown: () => go(index + 1),
    ArrowUp: () => go(index - 1),
    Home: () => go(0),
    End: () => go(nodes.length - 1),
    ArrowRight: () => (parent && !isOpen ? view.toggle(node.row, true) : parent && go(index + 1)),
    ArrowLeft: () => (parent && isOpen ? view.toggle(node.row, false) : go(node.above)),
    Enter: () => setRoot(node.row === root ? Math.max(tree.parent[root], 0) : node.row),
    " ": () => view.select(view.selected === node.row ? -1 : node.row),
    x: () => view.unfold(node.row),
  };
  const known = keys[key];
  known?.();
  return known !== undefined;
}
