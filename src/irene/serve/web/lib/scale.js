// Scales and ticks of charts.

/**
 * @typedef {((value: number) => number) & {domain: [number, number], range: [number, number],
 *   log: boolean, ticks: (wanted?: number) => number[], invert: (at: number) => number}} Scale
 */

/**
 * @param {[number, number]} domain
 * @param {[number, number]} range pixels
 * @returns {Scale}
 */
export function linear(domain, range) {
  const [from, to] = domain;
  const span = to - from || 1;
  const scale = (/** @type {number} */ value) => range[0] + ((value - from) / span) * (range[1] - range[0]);
  const invert = (/** @type {number} */ at) => from + ((at - range[0]) / (range[1] - range[0] || 1)) * span;
  return Object.assign(scale, { domain, range, log: false, invert, ticks: (n = 5) => niceTicks(from, to, n) });
}

/**
 * @param {[number, number]} domain both above 0
 * @param {[number, number]} range pixels
 * @returns {Scale}
 */
export function log(domain, range) {
  const inner = linear([Math.log10(domain[0]), Math.log10(domain[1])], range);
  const scale = (/** @type {number} */ value) => inner(Math.log10(value));
  const invert = (/** @type {number} */ at) => 10 ** inner.invert(at);
  return Object.assign(scale, { domain, range, log: true, invert, ticks: () => logTicks(domain[0], domain[1]) });
}

/**
 * Round numbers between two values.
 * @param {number} from
 * @param {number} to
 * @param {number} wanted about how many
 * @returns {number[]}
 */
export function niceTicks(from, to, wanted = 5) {
  const span = to - from;
  if (!(span > 0) || !Number.isFinite(span)) return [from];
  const rough = span / Math.max(wanted, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough * 0.999) ?? 10);
  const first = Math.ceil(from / step - 1e-9);
  const last = Math.floor(to / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/**
 * @param {number} from
 * @param {number} to
 * @returns {number[]} powers of ten, with 2 and 5 between where few decades are shown; round numbers where
 *   even those are too few
 */
export function logTicks(from, to) {
  const [low, high] = [Math.floor(Math.log10(from)), Math.ceil(Math.log10(to))];
  const inner = high - low > 3 ? [1] : [1, 2, 5];
  const ticks = [];
  for (let power = low; power <= high; power++) {
    for (const factor of inner) ticks.push(Number((factor * 10 ** power).toPrecision(12)));
  }
  const inside = ticks.filter((tick) => tick >= from * 0.999 && tick <= to * 1.001);
  return inside.length < 3 ? niceTicks(from, to, 4) : inside;
}

/**
 * A domain around values, with a little air.
 * @param {readonly number[]} values
 * @param {{zero?: boolean, air?: number, log?: boolean}} [options]
 * @returns {[number, number]}
 */
export function extent(values, { zero = false, air = 0.05, log: logarithmic = false } = {}) {
  const finite = values.filter((value) => Number.isFinite(value) && (!logarithmic || value > 0));
  if (finite.length === 0) return logarithmic ? [0.1, 1] : [0, 1];
  const low = finite.reduce((a, b) => Math.min(a, b));
  const high = finite.reduce((a, b) => Math.max(a, b));
  if (logarithmic) {
    const factor = (high / low) ** air * 1.05;
    return [low / factor, high * factor];
  }
  const pad = (high - low || Math.abs(high) || 1) * air;
  return [zero ? Math.min(0, low) : low - pad, high + pad];
}
