// Numbers for people: three significant digits, SI units, no-break spaces.

const NBSP = "\u00a0";
const MINUS = "\u2212";
/** @type {[number, string][]} */
const PREFIXES = [
  [1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""],
  [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"],
];

/**
 * Three significant digits (or more), without exponent.
 * @param {number} value
 * @param {number} [digits]
 */
export function digits(value, digits = 3) {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.floor(Math.log10(Math.abs(Number(value.toPrecision(digits)))));
  const decimals = Math.min(Math.max(digits - 1 - size, 0), 20);
  return grouped(Number(value.toPrecision(digits)).toFixed(decimals));
}

/**
 * Thousands separators and a real minus. (toLocaleString takes 50 times as long.)
 * @param {string} text digits, maybe with a sign and decimals
 */
function grouped(text) {
  const [whole = "", ...rest] = text.replace("-", MINUS).split(".");
  return [whole.replace(/\B(?=(\d{3})+$)/g, ","), ...rest].join(".");
}

/**
 * A value with an SI prefix and a unit.
 * @param {number | null | undefined} value
 * @param {string} unit
 * @param {number} [least] smallest factor to use, such as 1 for counts
 */
export function si(value, unit, least = 1e-9) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value === 0) return `0${NBSP}${unit}`;
  const rounded = Math.abs(Number(value.toPrecision(3)));
  const found = PREFIXES.find(([factor]) => rounded >= factor && factor >= least);
  const [factor, prefix] = found ?? [least, PREFIXES.find(([f]) => f === least)?.[1] ?? ""];
  const number = digits(value / factor);
  const symbol = prefix + unit;
  return symbol ? `${number}${NBSP}${symbol}` : number;
}

/** @param {number | null | undefined} value energy, J */
export const joules = (value) => si(value, "J");
/** @param {number | null | undefined} value power, W */
export const watts = (value) => si(value, "W");
/** @param {number | null | undefined} value floating-point operations */
export const flops = (value) => (value === 0 ? "0" : si(value, "FLOP", 1));
/** @param {number | null | undefined} value bytes, in powers of 1000 */
export const bytes = (value) => (value === 0 ? "0" : si(value, "B", 1));
/** @param {number | null | undefined} value a large count, such as parameters: k, M, B, T */
export const count = (value) => (value === 0 ? "0" : si(value, "", 1).trim().replace("G", "B"));

/** @param {number | null | undefined} value time, s */
export function seconds(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value < 120) return si(value, "s");
  if (value < 7200) return `${digits(value / 60)}${NBSP}min`;
  return value < 172800 ? `${digits(value / 3600)}${NBSP}h` : `${digits(value / 86400)}${NBSP}days`;
}

/** @param {number | null | undefined} value every digit, with thousands separators */
export function integer(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return grouped(Math.round(value).toFixed(0));
}

/**
 * @param {number | null | undefined} share 1 is 100 %
 * @returns {string} two significant digits, one more near the whole
 */
export function percent(share) {
  if (share === null || share === undefined || !Number.isFinite(share)) return "–";
  const value = share * 100;
  if (value === 0) return `0${NBSP}%`;
  if (Math.abs(value) < 0.01) return value > 0 ? `<${NBSP}0.01${NBSP}%` : `>${NBSP}${MINUS}0.01${NBSP}%`;
  return `${digits(value, Math.abs(value) >= 99.5 ? 3 : 2)}${NBSP}%`;
}

/**
 * A change with its sign: "+12 %", "−3.1 %".
 * @param {number | null | undefined} share
 */
export function change(share) {
  const text = percent(share);
  return share && share > 0 && !text.startsWith("<") ? `+${text}` : text;
}

/**
 * Half the width of an interval, relative: "± 3 %"; both sides where they differ; a factor
 * where it reaches twice the value; "" of a figure that was given without one.
 * @param {number | null | undefined} value
 * @param {number | null | undefined} low
 * @param {number | null | undefined} high
 */
export function interval(value, low, high) {
  if (!value || low === null || low === undefined || high === null || high === undefined || low === high) return "";
  const [under, over] = [(value - low) / value, (high - value) / value];
  if (!Number.isFinite(under) || !Number.isFinite(over)) return "";
  if (low > 0 && over >= 0.995) {
    const [below, above] = [digits(value / low, 2), digits(high / value, 2)];
    return below === above ? `factor${NBSP}${above}` : `÷${below}${NBSP}×${above}`;
  }
  if (Math.max(under, over) > 1.5 * Math.min(under, over) + 0.01) {
    return `${MINUS}${percent(under)}${NBSP}/${NBSP}+${percent(over)}`;
  }
  return `±${NBSP}${percent((under + over) / 2)}`;
}

/**
 * Low to high with one unit where it can: "13.7 J – 14.4 J".
 * @param {number | null | undefined} low
 * @param {number | null | undefined} high
 */
export const range = (low, high) => `${joules(low)} – ${joules(high)}`;

/**
 * @param {readonly (readonly number[])[] | null | undefined} list
 * @returns {string} "8×128, 8×768"
 */
export function shapes(list) {
  if (!list || list.length === 0) return "–";
  return list.map((shape) => (shape.length ? shape.join("×") : "scalar")).join(", ");
}

/**
 * @param {number | null | undefined} energy J
 * @param {number | null | undefined} work FLOPs
 */
export function perGflop(energy, work) {
  if (!work || energy === null || energy === undefined) return "–";
  return `${si(energy / (work / 1e9), "J/GFLOP")}`;
}

/**
 * "1 match", "12 matches".
 * @param {number} number
 * @param {string} one
 * @param {string} [many]
 */
export function plural(number, one, many = `${one}s`) {
  return `${integer(number)} ${number === 1 ? one : many}`;
}
