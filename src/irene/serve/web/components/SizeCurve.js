// Energy against a size, under its slider: the thumb stands above its place on the curve.

import { html, useState } from "../vendor/preact.js";
import { useAnswer } from "../lib/answer.js";
import { integer, interval, joules } from "../lib/format.js";
import { extent, log } from "../lib/scale.js";
import { position } from "../lib/sizes.js";
import { Busy } from "./Busy.js";
import { Line } from "./Chart.js";

const HIGH = 34;

/**
 * Per sequence, or per output token of a serving, so that sizes can be told apart by it.
 * @param {{model: string, run: Record<string, string>, over: string, unit: string, label: string, values: readonly number[], value: number,
 *   onPick: (size: number) => void}} props unit: what energy is told of; values: steps of the slider
 */
export function SizeCurve({ model, run, over, unit, label, values, value, onPick }) {
  const { [over]: _, ...rest } = run;
  const { document, error } = useAnswer("/what-if", { model, ...rest, over }, { wait: 400 });
  const [at, setAt] = useState(/** @type {number | null} */ (null));
  const per = `per ${unit}`;
  const parts = (/** @type {number} */ size) => ["batch_size", "output_len"].reduce((all, name) => all * (name === over ? size : Number(run[name] || 1)), 1);
  /** @type {{x: number, size: number, joules: number, low: number, high: number, fits?: boolean}[]} */
  const points = (document?.over === over ? document.lines[0]?.points ?? [] : []).map((/** @type {any} */ { size, energy, fits }) => {
    const [least, most, n] = [energy.low, energy.high, parts(size)];
    return { x: position(values, size), size, joules: energy.joules / n, low: least / n, high: most / n, fits };
  }).filter((/** @type {any} */ point) => point.x >= 0);
  if (error) return null;
  if (points.length < 2) return html`<div class="size-curve">${!document && html`<${Busy} inline label="Drawing the curve" />`}</div>`;
  const y = log(extent(points.flatMap(({ low, high }) => [low, high]), { log: true, air: 0 }), [HIGH - 2, 2]);
  const nearest = (/** @type {number} */ x) => points.reduce((best, each) => (Math.abs(each.x - x) < Math.abs(best.x - x) ? each : best));
  const told = at === null ? null : nearest(at);
  const here = told?.x ?? position(values, value);
  const place = (/** @type {PointerEvent} */ event) => {
    const box = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
    return (event.clientX - box.left) / box.width;
  };
  const full = points.find((each) => each.fits === false);
  const [first, last] = [/** @type {any} */ (points[0]), /** @type {any} */ (points.at(-1))];
  return html`<div class="size-curve">
    <svg viewBox=${`0 0 100 ${HIGH}`} preserveAspectRatio="none" role="img"
      aria-label=${`Energy ${per} by ${label.toLowerCase()}: ${joules(first.joules)} at ${integer(first.size)}, ${joules(last.joules)} at ${integer(last.size)}`}
      onPointerMove=${(/** @type {PointerEvent} */ event) => setAt(place(event))} onPointerLeave=${() => setAt(null)} onClick=${(/** @type {PointerEvent} */ event) => onPick(nearest(place(event)).size)}
    >
      <${Line} points=${points.map((each) => ({ ...each, y: each.joules }))} x=${(/** @type {number} */ x) => x * 100} y=${y} />
      ${full && html`<rect class="full" x=${full.x * 100} width=${100 - full.x * 100} height=${HIGH} />`}
      ${here >= 0 && html`<line class="here" x1=${here * 100} x2=${here * 100} y1="0" y2=${HIGH} />`}
    </svg>
    <p class="hint">${told
      ? html`${integer(told.size)}: <strong>${joules(told.joules)}</strong> ${interval(told.joules, told.low, told.high)}${told.fits === false && ", does not fit"}`
      : html`${per}, <strong>${joules(first.joules)}</strong> to <strong>${joules(last.joules)}</strong>${full && (full === first ? ", does not fit" : `, fits below ${integer(full.size)}`)}`}</p>
  </div>`;
}
