// IrEne-viz's own view: boxes and lines, opened and closed by a click, colour = share.
// Only what is inside the window is drawn, so that ten thousand open nodes stay quick.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { inkOn, ramp } from "../lib/colour.js";
import { percent } from "../lib/format.js";
import { amount } from "../lib/headline.js";
import { BOX, layoutNodeLink } from "../lib/node-link.js";
import { visibleRows } from "../lib/rows.js";
import { hasChildren, label } from "../lib/tree.js";
import { fit as shortened } from "./Icicle.js";
import { shareOf } from "./TreeTable.js";

/** Drawn around what is in sight, and by how much that moves on at a time, px of the screen. */
const [AROUND, MOVE] = [240, 160];
const [SMALLEST, LARGEST, STEP] = [0.3, 2, 1.25];
/** Between two boxes that are drawn, at least, px of the screen. */
const APART = 2;
/** Smaller than this nobody can read it: what is too large for it begins there. */
const READABLE = 0.8;
const MAP = { width: 150, height: 170 };

/**
 * @param {{view: import("./TreeTable.js").View, root: number, setRoot: (row: number) => void}} props
 */
export function NodeLink({ view, root, setRoot }) {
  const { tree, open, only, minShare } = view;
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  const [part, setPart] = useState({ top: 0, left: 0, width: 1200, height: 800 });
  const [scale, setScale] = useState(1);
  const [active, setActive] = useState(root);
  const wantsFocus = useRef(false);
  const picture = useMemo(
    () => layoutNodeLink(tree, root, visibleRows(tree, open, { only, minShare })),
    [tree, root, open, only, minShare],
  );
  const look = () => {
    const element = frame.current;
    if (!element) return;
    const [top, left] = [element.scrollTop, element.scrollLeft].map((at) => Math.floor(at / MOVE) * MOVE);
    const [width, height] = [element.clientWidth + MOVE, element.clientHeight + MOVE];
    setPart((old) => (old.top === top && old.left === left && old.width === width && old.height === height ? old : { top, left, width, height }));
  };
  useEffect(() => {
    look();
    const watch = new ResizeObserver(look);
    if (frame.current) watch.observe(frame.current);
    return () => watch.disconnect();
  }, []);
  useEffect(() => setActive(root), [root]);
  const fit = (least = 0) => {
    const element = frame.current;
    if (!element) return;
    const whole = Math.min(element.clientWidth / picture.width, element.clientHeight / picture.height);
    const next = Math.min(Math.max(whole, least), 1);
    setScale(next);
    requestAnimationFrame(() => {
      element.scrollTo(0, (picture.nodes[0]?.y ?? 0) * next - element.clientHeight / 2);
      look();
    });
  };
  useLayoutEffect(() => fit(READABLE), [tree, root]);
  // The point under the pointer stays where it is.
  const zoom = (/** @type {number} */ factor, /** @type {{clientX: number, clientY: number} | null} */ at = null) => {
    const element = /** @type {HTMLElement} */ (frame.current);
    const box = element.getBoundingClientRect();
    const [x, y] = at ? [at.clientX - box.left, at.clientY - box.top] : [box.width / 2, box.height / 2];
    const next = Math.min(Math.max(scale * factor, Math.min(SMALLEST, scale)), LARGEST);
    const [left, top] = [((element.scrollLeft + x) / scale) * next - x, ((element.scrollTop + y) / scale) * next - y];
    setScale(next);
    requestAnimationFrame(() => {
      element.scrollTo(left, top);
      look();
    });
  };
  const onWheel = (/** @type {WheelEvent} */ event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 300), event);
  };
  const drag = useRef(/** @type {{x: number, y: number, left: number, top: number} | null} */ (null));
  const onPointerDown = (/** @type {PointerEvent} */ event) => {
    const element = /** @type {HTMLElement} */ (frame.current);
    const onBox = event.target instanceof Element && event.target.closest("[role=treeitem]");
    if (event.button !== 0 || onBox || event.pointerType === "touch") return;
    drag.current = { x: event.clientX, y: event.clientY, left: element.scrollLeft, top: element.scrollTop };
    element.setPointerCapture(event.pointerId);
  };
  const onPointerMove = (/** @type {PointerEvent} */ event) => {
    const from = drag.current;
    if (from) frame.current?.scrollTo(from.left - event.clientX + from.x, from.top - event.clientY + from.y);
  };
  // The root stays in sight when the picture changes its height around it.
  useLayoutEffect(() => {
    const [element, top] = [frame.current, picture.nodes[0]];
    if (!element || !top) return;
    if (top.y * scale < element.scrollTop || top.y * scale > element.scrollTop + element.clientHeight) {
      const at = picture.nodes.find(({ row }) => row === active) ?? top;
      element.scrollTop = at.y * scale - element.clientHeight / 2;
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
    const [x, y] = [node.x * scale, node.y * scale];
    if (y < element.scrollTop + 30 || y > element.scrollTop + element.clientHeight - 30) element.scrollTop = y - element.clientHeight / 2;
    if (x < element.scrollLeft || x + BOX.width * scale > element.scrollLeft + element.clientWidth) element.scrollLeft = x - 60;
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
    const own = { "+": () => zoom(STEP), "-": () => zoom(1 / STEP), 0: () => fit() }[event.key];
    if (own) return event.preventDefault(), own();
    if (onLinkKey(event.key, { view, picture, index: Math.max(current, 0), go, setRoot, root })) event.preventDefault();
  };
  const seen = { top: part.top / scale, left: part.left / scale, width: part.width / scale, height: part.height / scale };
  const shown = useMemo(() => inWindow(picture.nodes, seen, scale, active), [picture, part, scale, active]);
  const large = picture.width > 1.3 * seen.width || picture.height > 1.3 * seen.height;
  return html`<div class="node-link-frame">
    <div class="node-link" ref=${frame} onScroll=${look} onWheel=${onWheel} onPointerDown=${onPointerDown} onPointerMove=${onPointerMove} onPointerUp=${() => (drag.current = null)}>
      <svg width=${picture.width * scale} height=${picture.height * scale} viewBox=${`0 0 ${picture.width} ${picture.height}`} role="tree" aria-label="Tree of the model" onKeyDown=${onKeyDown}>
        <g aria-hidden="true">${shown.edges.map(([from, to]) => html`<path class="edge" d=${edge(from, to)} />`)}</g>
        ${shown.nodes.map((node) => html`<${Box} key=${node.row} view=${view} node=${node} active=${node.row === active} onPick=${() => setActive(node.row)} />`)}
      </svg>
    </div>
    <div class="zoom toolbar" role="group" aria-label="Zoom">
      <button type="button" class="square" aria-label="Smaller" onClick=${() => zoom(1 / STEP)}>−</button>
      <button type="button" onClick=${() => fit()}>Fit</button>
      <button type="button" class="square" aria-label="Larger" onClick=${() => zoom(STEP)}>+</button>
    </div>
    ${large && html`<${Minimap} view=${view} picture=${picture} seen=${seen} onGo=${(/** @type {number} */ x, /** @type {number} */ y) => frame.current?.scrollTo((x - seen.width / 2) * scale, (y - seen.height / 2) * scale)} />`}
  </div>`;
}

/**
 * The whole tree in small, and the part of it that is in sight; a click goes there.
 * @param {{view: import("./TreeTable.js").View, picture: ReturnType<typeof layoutNodeLink>,
 *   seen: {top: number, left: number, width: number, height: number}, onGo: (x: number, y: number) => void}} props
 */
function Minimap({ view, picture, seen, onGo }) {
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const scale = Math.min(MAP.width / picture.width, MAP.height / picture.height);
  const [width, height] = [Math.max(picture.width * scale, 24), Math.max(picture.height * scale, 24)];
  useEffect(() => {
    const pen = canvas.current?.getContext("2d");
    if (!pen) return;
    pen.clearRect(0, 0, width, height);
    for (const { row, x, y } of picture.nodes) {
      pen.fillStyle = ramp(shareOf(view, row).at, view.dark);
      pen.fillRect(x * scale, (y - BOX.height / 2) * scale, Math.max(BOX.width * scale, 2), Math.max(BOX.height * scale, 1));
    }
  }, [picture, view.dark, view.metric]);
  const go = (/** @type {PointerEvent} */ event) => {
    const box = /** @type {HTMLElement} */ (event.currentTarget).getBoundingClientRect();
    if (event.buttons) onGo((event.clientX - box.left) / scale, (event.clientY - box.top) / scale);
  };
  return html`<div class="minimap" aria-hidden="true" style=${{ width: `${width}px`, height: `${height}px` }} onPointerDown=${go} onPointerMove=${go}>
    <canvas ref=${canvas} width=${Math.ceil(width)} height=${Math.ceil(height)}></canvas>
    <span style=${{ left: `${seen.left * scale}px`, top: `${seen.top * scale}px`, width: `${Math.min(seen.width * scale, width)}px`, height: `${Math.min(seen.height * scale, height)}px` }}></span>
  </div>`;
}

/**
 * @param {import("../lib/node-link.js").Placed[]} nodes
 * @param {{top: number, left: number, width: number, height: number}} part
 * @param {number} scale so small that boxes would hide each other, some stand for all
 * @param {number} active row that is there in any case
 */
function inWindow(nodes, part, scale, active) {
  const around = AROUND / scale;
  const [top, bottom] = [part.top - around, part.top + part.height + around];
  const [left, right] = [part.left - around - BOX.width, part.left + part.width + around];
  const inside = (/** @type {{x: number, y: number}} */ node) => node.y >= top && node.y <= bottom && node.x >= left && node.x <= right;
  const isClear = spaced(APART / scale);
  const isClearEdge = spaced(APART / scale);
  /** @type {[import("../lib/node-link.js").Placed, import("../lib/node-link.js").Placed][]} */
  const edges = [];
  for (const node of nodes) {
    const parent = nodes[node.above];
    if (parent && node.x >= left && parent.x <= right && Math.max(node.y, parent.y) >= top && Math.min(node.y, parent.y) <= bottom && isClearEdge(node)) edges.push([parent, node]);
  }
  return { nodes: nodes.filter((node, i) => i === 0 || node.row === active || (inside(node) && isClear(node))), edges };
}

/**
 * Whether a node is far enough below the last one of its column that was.
 * @param {number} least
 */
function spaced(least) {
  /** @type {Map<number, number>} */
  const last = new Map();
  return (/** @type {{x: number, y: number}} */ { x, y }) => {
    const isClear = y - (last.get(x) ?? -Infinity) >= least;
    if (isClear) last.set(x, y);
    return isClear;
  };
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
    onFocus=${onPick} onPointerEnter=${() => view.hover(row)} onPointerLeave=${() => view.hover(-1)}
  >
    <rect width=${BOX.width} height=${BOX.height} rx="4" style=${{ fill: ramp(at, dark), fillOpacity: faint ? 0.35 : 1 }} />
    <text x="8" y=${BOX.height / 2} dy="0.35em" style=${{ fill: faint ? "var(--ink)" : ink }}>${mark}${shortened(`${label(tree, row)}${times}`, room)}</text>
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
