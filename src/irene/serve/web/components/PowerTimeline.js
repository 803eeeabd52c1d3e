// Power over time with steps and modules marked: hover or arrow keys read it, a drag or
// the keys zoom, and what is on screen is added up beside it.

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { useWidth } from "./Chart.js";
import { useDark } from "./Page.js";
import { linear } from "../lib/scale.js";
import { series } from "../lib/colour.js";
import { joules, seconds, watts } from "../lib/format.js";
import { energyBetween, lanes, length, peak, pieces, runningAt } from "../lib/timeline.js";

const HEIGHT = 220;
const LANE = 18;
const MARGIN = { top: 22, right: 16, bottom: 40, left: 64 };
const PHASES = ["forward", "backward", "optimizer", "loss", "data", "other"];
const MOST_LANES = 6;

/**
 * @typedef {import("../lib/timeline.js").Timeline} Timeline
 * @typedef {[number, number]} Range s
 */

/**
 * @param {{timeline: Timeline, range: Range | null, onRange: (range: Range | null) => void,
 *   svgRef?: any}} props range null is the whole
 */
export function PowerTimeline({ timeline, range, onRange, svgRef }) {
  const [ref, width] = useWidth();
  const dark = useDark();
  const whole = length(timeline);
  const [from, to] = range ?? [0, whole];
  const rows = useMemo(() => lanes(timeline.modules).slice(0, MOST_LANES), [timeline]);
  const height = HEIGHT + rows.length * LANE + 6;
  const floor = HEIGHT - MARGIN.bottom;
  const x = linear([from, to], [MARGIN.left, Math.max(width - MARGIN.right, MARGIN.left + 10)]);
  const y = linear([0, peak(timeline.channels) * 1.08 || 1], [floor, MARGIN.top]);
  const [cursor, setCursor] = useState(/** @type {number | null} */ (null));
  const [drag, setDrag] = useState(/** @type {number | null} */ (null));
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => setCursor(null), [timeline]);

  const timeAt = (/** @type {PointerEvent} */ event) => {
    const left = frame.current?.getBoundingClientRect().left ?? 0;
    return Math.min(Math.max(x.invert(event.clientX - left), from), to);
  };
  const zoom = (/** @type {number} */ factor, middle = cursor ?? (from + to) / 2) => {
    const half = Math.min(((to - from) * factor) / 2, whole / 2);
    if (half * 2 >= whole * 0.999) return onRange(null);
    const start = Math.min(Math.max(middle - half, 0), whole - 2 * half);
    return onRange([start, start + 2 * half]);
  };
  const shift = (/** @type {number} */ part) => {
    const step = (to - from) * part;
    const start = Math.min(Math.max(from + step, 0), whole - (to - from));
    if (range) onRange([start, start + (to - from)]);
  };
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    const step = (to - from) / (event.shiftKey ? 10 : 100);
    const at = cursor ?? from;
    if (event.key === "ArrowRight") setCursor(Math.min(at + step, to));
    else if (event.key === "ArrowLeft") setCursor(Math.max(at - step, from));
    else if (event.key === "+" || event.key === "=") zoom(0.5);
    else if (event.key === "-") zoom(2);
    else if (event.key === "PageDown") shift(0.8);
    else if (event.key === "PageUp") shift(-0.8);
    else if (event.key === "Escape" || event.key === "0") onRange(null);
    else return;
    event.preventDefault();
  };
  const onUp = (/** @type {PointerEvent} */ event) => {
    const end = timeAt(event);
    if (drag !== null && Math.abs(x(end) - x(drag)) > 6) onRange([Math.min(drag, end), Math.max(drag, end)]);
    setDrag(null);
  };

  return html`<div class="timeline">
    <div class="timeline-tools">
      <button type="button" onClick=${() => zoom(0.5)} aria-label="Zoom in">+</button>
      <button type="button" onClick=${() => zoom(2)} disabled=${!range} aria-label="Zoom out">−</button>
      <button type="button" onClick=${() => onRange(null)} disabled=${!range}>Whole run</button>
      <span class="hint">drag over a stretch to zoom in</span>
    </div>
    <div
      class="timeline-frame" ref=${(/** @type {any} */ element) => {
        ref.current = element;
        frame.current = element;
      }}
      role="application" aria-roledescription="power timeline" tabindex="0"
      aria-label="Power over time. Left and right arrows move the cursor, plus and minus zoom, Page Up and Page Down scroll, Escape shows all."
      onKeyDown=${onKey}
      onPointerMove=${(/** @type {PointerEvent} */ event) => setCursor(timeAt(event))}
      onPointerLeave=${() => drag === null && setCursor(null)}
      onPointerDown=${(/** @type {PointerEvent} */ event) => {
        if (event.pointerType === "mouse") setDrag(timeAt(event));
      }}
      onPointerUp=${onUp}
    >
      <svg ref=${svgRef} class="timeline-svg" width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} aria-hidden="true">
        <${Steps} steps=${timeline.steps} x=${x} from=${from} to=${to} floor=${floor} />
        <${Frame} x=${x} y=${y} width=${width} floor=${floor} />
        ${timeline.channels.map(
          (channel, index) => html`<g class="line" key=${channel.name} style=${{ stroke: series(index, dark) }}>
            ${pieces(channel, from, to).map((piece) => html`<polyline
              class="power-line" points=${piece.map(([t, w]) => `${x(t).toFixed(1)},${y(w).toFixed(1)}`).join(" ")}
            />`)}
          </g>`,
        )}
        ${rows.map((lane, index) => html`<${Lane} key=${index} lane=${lane} x=${x} top=${HEIGHT + index * LANE} from=${from} to=${to} dark=${dark} />`)}
        ${drag !== null && cursor !== null && html`<rect class="brush" x=${Math.min(x(drag), x(cursor))} y=${MARGIN.top} width=${Math.abs(x(cursor) - x(drag))} height=${height - MARGIN.top} />`}
        ${cursor !== null && html`<line class="cursor" x1=${x(cursor)} x2=${x(cursor)} y1=${MARGIN.top} y2=${height} />`}
      </svg>
    </div>
    <${Legend} modules=${timeline.modules} dark=${dark} />
    <${Readout} timeline=${timeline} time=${cursor} dark=${dark} />
    <${Window} timeline=${timeline} from=${from} to=${to} dark=${dark} />
  </div>`;
}

/** @param {{x: any, y: any, width: number, floor: number}} props */
function Frame({ x, y, width, floor }) {
  const right = width - MARGIN.right;
  return html`<g class="axes">
    ${y.ticks(4).map((/** @type {number} */ tick) => html`<line class="grid" x1=${MARGIN.left} x2=${right} y1=${y(tick)} y2=${y(tick)} />
      <text class="tick" x=${MARGIN.left - 8} y=${y(tick)} dy="0.32em" text-anchor="end">${watts(tick)}</text>`)}
    ${x.ticks(Math.max(Math.floor(width / 130), 2)).map((/** @type {number} */ tick) => html`<line class="tick-mark" x1=${x(tick)} x2=${x(tick)} y1=${floor} y2=${floor + 5} />
      <text class="tick" x=${x(tick)} y=${floor + 18} text-anchor="middle">${seconds(tick)}</text>`)}
    <line class="axis" x1=${MARGIN.left} x2=${right} y1=${floor} y2=${floor} />
  </g>`;
}

/** @param {{steps: any[], x: any, from: number, to: number, floor: number}} props */
function Steps({ steps, x, from, to, floor }) {
  return steps
    .map((step, index) => ({ ...step, index }))
    .filter((step) => step.end_s > from && step.start_s < to)
    .map((step) => {
      const left = x(Math.max(step.start_s, from));
      const wide = Math.max(x(Math.min(step.end_s, to)) - left, 1);
      return html`<g key=${step.index}>
        <rect class=${step.index % 2 ? "step odd" : "step"} x=${left} y=${MARGIN.top} width=${wide} height=${floor - MARGIN.top} />
        ${wide > 30 && html`<text class="tick" x=${left + 4} y=${MARGIN.top - 6}>${step.label.slice(0, Math.floor(wide / 7))}</text>`}
      </g>`;
    });
}

/** @param {{lane: any, x: any, top: number, from: number, to: number, dark: boolean}} props */
function Lane({ lane, x, top, from, to, dark }) {
  return html`<g>
    <text class="tick" x=${MARGIN.left - 8} y=${top + LANE / 2} dy="0.32em" text-anchor="end">${lane.device.slice(0, 8)}</text>
    ${lane.modules
      .filter((/** @type {any} */ each) => each.end_s > from && each.start_s < to)
      .map((/** @type {any} */ each) => {
        const left = x(Math.max(each.start_s, from));
        const wide = Math.max(x(Math.min(each.end_s, to)) - left, 0.5);
        return html`<rect
          class="stretch" x=${left} y=${top + 2} width=${wide} height=${LANE - 4}
          style=${{ fill: phaseColour(each.phase, dark) }}
        ><title>${each.scope} · ${each.phase}</title></rect>`;
      })}
  </g>`;
}

/**
 * @param {string} phase
 * @param {boolean} dark
 */
const phaseColour = (phase, dark) => series((PHASES.indexOf(phase) + PHASES.length + 1) % (PHASES.length + 1) + 2, dark);

/** @param {{modules: readonly any[], dark: boolean}} props */
function Legend({ modules, dark }) {
  const phases = [...new Set(modules.map((module) => module.phase))];
  return html`<p class="legend-row hint">${phases.map((phase) => html`<span class="key"><i class="block" style=${{ background: phaseColour(phase, dark) }}></i>${phase}</span>`)}</p>`;
}

/** @param {{timeline: Timeline, time: number | null, dark: boolean}} props */
function Readout({ timeline, time, dark }) {
  const now = time === null ? null : runningAt(timeline, time);
  return html`<p class="readout" role="status">
    ${time === null || now === null
      ? html`<span class="hint">Point at the curve, or focus it and use the arrow keys.</span>`
      : html`<strong>${seconds(time)}</strong>
          ${timeline.channels.map((channel, index) => {
            const bin = channel.time_s.findIndex((edge) => edge > time) - 1;
            return html`<span class="key"><i style=${{ background: series(index, dark) }}></i>${channel.name} ${watts(channel.power_w[bin] ?? null)}</span>`;
          })}
          ${now.step && html`<span>step ${now.step.label}</span>`}
          ${now.modules.map((module) => html`<span>${module.scope} · ${module.phase}</span>`)}`}
  </p>`;
}

/** @param {{timeline: Timeline, from: number, to: number, dark: boolean}} props */
function Window({ timeline, from, to, dark }) {
  return html`<dl class="figures">
    <div><dt>on screen</dt><dd>${seconds(from)} – ${seconds(to)}</dd></div>
    ${timeline.channels.map((channel, index) => {
      const energy = energyBetween(channel, from, to);
      return html`<div>
        <dt class="key"><i style=${{ background: series(index, dark) }}></i>${channel.name}</dt>
        <dd>${joules(energy)} <span class="hint">${watts(energy / (to - from || 1))} on average</span></dd>
      </div>`;
    })}
  </dl>`;
}
