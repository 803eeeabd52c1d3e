// Colour = share of energy. One ramp, safe for colour-blind eyes: its lightness only
// rises (dark page) or falls (light page), so that order survives any loss of hue.

/** OKLab anchors [lightness, a, b] from "little" to "much". */
const LIGHT = [
  [0.965, 0.002, 0.035], [0.885, 0.03, 0.105], [0.77, 0.115, 0.095],
  [0.61, 0.18, 0.03], [0.45, 0.16, -0.075], [0.3, 0.075, -0.12],
];
const DARK = [
  [0.27, 0.02, -0.05], [0.37, 0.085, -0.12], [0.5, 0.17, -0.08],
  [0.65, 0.175, 0.03], [0.79, 0.095, 0.1], [0.92, 0.005, 0.1],
];
const STEPS = 256;

/** @typedef {[number, number, number]} Rgb each 0 to 255 */

/**
 * @param {number[]} lab OKLab
 * @returns {Rgb}
 */
function toRgb([L, a, b]) {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return /** @type {Rgb} */ (
    [
      4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
      -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
      -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
    ].map((linear) => {
      const value = Math.min(Math.max(linear, 0), 1);
      const gamma = value <= 0.0031308 ? 12.92 * value : 1.055 * value ** (1 / 2.4) - 0.055;
      return Math.round(gamma * 255);
    })
  );
}

/**
 * @param {number[][]} anchors
 * @returns {Rgb[]}
 */
function makeRamp(anchors) {
  return Array.from({ length: STEPS }, (_, step) => {
    const at = (step / (STEPS - 1)) * (anchors.length - 1);
    const i = Math.min(Math.floor(at), anchors.length - 2);
    const [from, to] = [anchors[i], anchors[i + 1]];
    return toRgb(from.map((value, k) => value + (to[k] - value) * (at - i)));
  });
}

const RAMPS = { light: makeRamp(LIGHT), dark: makeRamp(DARK) };

/**
 * @param {number} value 0 to 1
 * @param {boolean} dark
 * @returns {Rgb}
 */
export function rampRgb(value, dark) {
  const step = Math.round(Math.min(Math.max(value || 0, 0), 1) * (STEPS - 1));
  return /** @type {Rgb} */ (RAMPS[dark ? "dark" : "light"][step]);
}

/**
 * @param {number} value 0 to 1
 * @param {boolean} dark
 * @returns {string} CSS colour
 */
export function ramp(value, dark) {
  return `rgb(${rampRgb(value, dark).join(" ")})`;
}

/**
 * Relative luminance as WCAG defines it.
 * @param {Rgb} rgb
 */
export function luminance(rgb) {
  const [r, g, b] = /** @type {Rgb} */ (
    rgb.map((value) => {
      const s = value / 255;
      return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
    })
  );
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/**
 * Contrast ratio of two colours, 1 to 21.
 * @param {Rgb} one
 * @param {Rgb} other
 */
export function contrast(one, other) {
  const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
}

/** @type {Rgb} */
const INK = [0, 0, 0];
/** @type {Rgb} */
const PAPER = [255, 255, 255];

/**
 * Black or white, whichever reads better on the ramp there.
 * @param {number} value 0 to 1
 * @param {boolean} dark
 * @returns {string} CSS colour
 */
export function inkOn(value, dark) {
  const ground = rampRgb(value, dark);
  const ink = contrast(INK, ground) >= contrast(PAPER, ground) ? INK : PAPER;
  return `rgb(${ink.join(" ")})`;
}

/**
 * Where on the ramp a share stands.
 *
 * `total` and `parent` are linear up to `full` (the largest share on screen), so that a
 * model of 48 equal layers is not all one pale colour; `log` spans four decades.
 * @param {number} share 0 to 1
 * @param {"linear" | "log"} scale
 * @param {number} [full] the share that gets the strongest colour
 */
export function position(share, scale, full = 1) {
  if (!(share > 0)) return 0;
  const part = Math.min(share / full, 1);
  return scale === "log" ? Math.max(1 + Math.log10(part) / 4, 0) : Math.sqrt(part);
}

/** Eight hues for series of charts, told apart by colour-blind eyes (Okabe and Ito 2008). */
export const SERIES = {
  light: ["#0072b2", "#b34700", "#00795a", "#a03b7c", "#5b4a00", "#2a7ea8", "#8a1c1c", "#4a4a55"],
  dark: ["#56b4e9", "#e69f00", "#2fc79d", "#e58fc2", "#f0e442", "#8fc7ef", "#ff8a6b", "#b8b8c4"],
};

/**
 * @param {number} index
 * @param {boolean} dark
 * @returns {string}
 */
export function series(index, dark) {
  const hues = SERIES[dark ? "dark" : "light"];
  return /** @type {string} */ (hues[index % hues.length]);
}
