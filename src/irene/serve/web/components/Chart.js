// Charts in SVG: a frame that knows its size, axes, and the three marks.
//
//   <${Chart} label="Energy by length" height=${280} x=${...} y=${...}>
//     ${({x, y}) => html`<${Line} points=${...} x=${x} y=${y} />`}
//   </${Chart}>
//
// x and y are {values | domain, log, zero, label, format, ticks}. Curves is several lines with
// their names.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { series } from "../lib/colour.js";
import { extent, linear, log } from "../lib/scale.js";
import { digits } from "../lib/format.js";
import { useDark } from "./Page.js";

/**
 * Hook: width of an element, px, as it changes.
 * @param {number} [first] until it is known
 * @returns {[any, number]} ref and width
 */
export function useWidth(first = 640) {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  const [width, setWidth] = useState(first);
  useEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    const watch = new ResizeObserver(([entry]) => setWidth(Math.max(entry?.contentRect.width ?? first, 120)));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  return [ref, width];
}

/**
 * @param {any} axis
 * @param {[number, number]} range
 */
function scaleOf(axis, range) {
  const domain = axis.domain ?? extent(axis.values ?? [], axis);
  return (axis.log ? log : linear)(domain, range);
}

/**
 * @param {{label: string, height?: number, x: any, y: any, children: any, margin?: any, class?: string}} props
 */
export function Chart({ label, height = 300, x, y, children, margin = {}, class: extra = "" }) {
  const [ref, width] = useWidth();
  const m = { top: 12, right: 16, bottom: 44, left: y.label ? 80 : 64, ...margin };
  const scales = {
    x: scaleOf(x, [m.left, Math.max(width - m.right, m.left + 10)]),
    y: scaleOf(y, [height - m.bottom, m.top]),
    width,
    height,
  };
  const draw = Array.isArray(children) ? children.find((child) => typeof child === "function") : children;
  return html`<div class=${`chart ${extra}`} ref=${ref}>
    <svg role="img" aria-label=${label} width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`}>
      <${Axes} scales=${scales} x=${x} y=${y} margin=${m} />
      ${draw(scales)}
    </svg>
  </div>`;
}

/** @param {{scales: any, x: any, y: any, margin: any}} props */
export function Axes({ scales, x, y, margin: m }) {
  const { width, height } = scales;
  const [fx, fy] = [x.format ?? digits, y.format ?? digits];
  const xTicks = apart(x.ticks ?? scales.x.ticks(Math.max(Math.floor(width / 110), 2)), scales.x, fx);
  const yTicks = y.ticks ?? scales.y.ticks(Math.max(Math.floor(height / 55), 2));
  const bottom = height - m.bottom;
  return html`<g class="axes" aria-hidden="true">
    ${yTicks.map((/** @type {number} */ tick) => {
      const at = scales.y(tick);
      return html`<line class="grid" x1=${m.left} x2=${width - m.right} y1=${at} y2=${at} />
        <text class="tick" x=${m.left - 8} y=${at} dy="0.32em" text-anchor="end">${fy(tick)}</text>`;
    })}
    ${xTicks.map((/** @type {number} */ tick) => {
      const at = scales.x(tick);
      return html`<line class="tick-mark" x1=${at} x2=${at} y1=${bottom} y2=${bottom + 5} />
        <text class="tick" x=${at} y=${bottom + 18} text-anchor="middle">${fx(tick)}</text>`;
    })}
    <line class="axis" x1=${m.left} x2=${width - m.right} y1=${bottom} y2=${bottom} />
    ${x.label && html`<text class="axis-label" x=${(m.left + width - m.right) / 2} y=${height - 6} text-anchor="middle">${x.label}</text>`}
    ${y.label && html`<text class="axis-label" transform=${`translate(14 ${(m.top + bottom) / 2}) rotate(-90)`} text-anchor="middle">${y.label}</text>`}
  </g>`;
}

/**
 * Ticks whose words do not run into those before them.
 * @param {number[]} ticks
 * @param {(value: number) => number} scale
 * @param {(value: number) => string} format
 */
function apart(ticks, scale, format) {
  let free = -Infinity;
  return ticks.filter((tick) => {
    const [at, half] = [scale(tick), format(tick).length * 3.4 + 3];
    if (at - half < free) return false;
    free = at + half;
    return true;
  });
}

/**
 * @param {{points: {x: number, y: number, low?: number, high?: number}[], x: any, y: any, class?: string}} props
 *   low and high of each point make a band
 */
export function Line({ points, x, y, class: extra = "" }) {
  const at = (/** @type {{x: number, y: number}} */ p) => `${x(p.x).toFixed(1)},${y(p.y).toFixed(1)}`;
  const banded = points.filter((p) => p.low !== undefined && p.high !== undefined);
  const band = [
    ...banded.map((p) => at({ x: p.x, y: /** @type {number} */ (p.high) })),
    ...banded.reverse().map((p) => at({ x: p.x, y: /** @type {number} */ (p.low) })),
  ];
  return html`<g class=${`line ${extra}`}>
    ${band.length > 2 && html`<polygon class="band" points=${band.join(" ")} />`}
    <polyline class="stroke" points=${points.map(at).join(" ")} />
  </g>`;
}

/**
 * @param {{points: {x: number, y: number, key?: string, label?: string, colour?: string,
 *   radius?: number, class?: string}[], x: any, y: any, selected?: string | null,
 *   onPick?: (point: any) => void, onHover?: (point: any) => void}} props
 */
export function Scatter({ points, x, y, selected, onPick, onHover }) {
  return html`<g class="scatter">
    ${points.map((point) => {
      const picked = selected !== undefined && selected !== null && selected === point.key;
      return html`<circle
        key=${point.key}
        class=${`dot ${point.class ?? ""} ${picked ? "picked" : ""}`}
        cx=${x(point.x)} cy=${y(point.y)} r=${(point.radius ?? 5) + (picked ? 2 : 0)}
        style=${point.colour ? { fill: point.colour } : undefined}
        onClick=${onPick && (() => onPick(point))}
        onPointerEnter=${onHover && (() => onHover(point))}
        onPointerLeave=${onHover && (() => onHover(null))}
      ><title>${point.label ?? point.key ?? ""}</title></circle>`;
    })}
  </g>`;
}

const NAMES = 150; // px that names need beside curves
const APART = 15;

/**
 * Curves, each with its name at its end; below them where there is no room beside.
 * @param {{label: string, curves: readonly {name: string, points: any[]}[], x: any, y: any, selected?: string | null, height?: number,
 *   onPick?: (point: any) => void, children?: (scales: any) => any}} props points: {x, y, low, high, key, label};
 *   children: what is drawn below the curves
 */
export function Curves({ label, curves, x, y, selected, height = 360, onPick, children }) {
  const dark = useDark();
  const [ref, width] = useWidth();
  const drawn = curves.map((each, index) => ({ ...each, colour: series(index, dark), at: 0 })).filter(({ points }) => points.length);
  const points = drawn.flatMap((each) => each.points);
  const named = drawn.some(({ name }) => name);
  const beside = named && width > 4 * NAMES;
  const end = (/** @type {any} */ each) => each.points.at(-1);
  return html`<div ref=${ref}>
    <${Chart}
      label=${label} height=${height} margin=${{ right: beside ? NAMES : 20 }}
      x=${{ values: points.map((each) => each.x), ...x }} y=${{ values: points.flatMap((each) => [each.low, each.high]), ...y }}
    >${(/** @type {any} */ scales) => {
      const { x: sx, y: sy } = scales;
      // Names stand near the ends of their curves, apart and in the picture.
      const order = [...drawn].sort((a, b) => sy(end(a).y) - sy(end(b).y));
      order.forEach((each, i) => (each.at = Math.max(sy(end(each).y), (order[i - 1]?.at ?? -Infinity) + APART)));
      order.reverse().forEach((each, i) => (each.at = Math.min(each.at, (order[i - 1]?.at ?? height) - APART)));
      return html`${children?.(scales)}${drawn.map((each) => html`<g key=${each.name} style=${{ color: each.colour }} class="curve">
        <${Line} points=${each.points} x=${sx} y=${sy} />
        <${Scatter} points=${each.points.map((point) => ({ radius: 3, colour: each.colour, ...point }))} x=${sx} y=${sy} selected=${selected} onPick=${onPick} />
        ${beside && html`<line class="lead-line" x1=${sx(end(each).x) + 4} y1=${sy(end(each).y)} x2=${sx.range[1] + 12} y2=${each.at} />
          <text class="dot-name" x=${sx.range[1] + 16} y=${each.at} dy="0.32em">${each.name}</text>`}
      </g>`)}`;
    }}</${Chart}>
    ${named && !beside && html`<p class="legend-row hint">${drawn.map(({ name, colour }) => html`<span class="key" key=${name}><i style=${{ background: colour }}></i>${name}</span>`)}</p>`}
  </div>`;
}

/**
 * Horizontal bars as HTML: readable at any width, and by screen readers as a list.
 * @param {{items: {key?: string, label: any, value: number, text?: string, colour?: string, href?: string}[],
 *   max?: number, label: string}} props
 */
export function Bars({ items, max, label }) {
  const full = max ?? items.reduce((most, item) => Math.max(most, item.value || 0), 0);
  return html`<ul class="bars" aria-label=${label}>
    ${items.map(
      (item) => html`<li key=${item.key ?? item.label}>
        <span class="bars-label">${item.href ? html`<a href=${item.href}>${item.label}</a>` : item.label}</span>
        <span class="bars-track" aria-hidden="true"><span
          class="bars-fill"
          style=${{ width: `${full ? (Math.max(item.value, 0) / full) * 100 : 0}%`, background: item.colour }}
        ></span></span>
        <span class="bars-value">${item.text ?? digits(item.value)}</span>
      </li>`,
    )}
  </ul>`;
}
