// From joules per request to kilowatt-hours, money and CO2e, with the server's formula.

import { nearest } from "./sizes.js";

export const JOULES_PER_KWH = 3.6e6;
export const DAYS_PER_YEAR = 365.25;

/**
 * @typedef {{joules: number, low: number, high: number}} Range
 * @typedef {{perDay: number, price: number | null, intensity: number, pue: number}} Terms
 * @typedef {{value: number, low: number, high: number}} Amount
 * @typedef {{name: string, requests: number, kwh: Amount, money: Amount | null, kg: Amount}} Line
 */

/**
 * @param {Range} energy J per request
 * @param {number} factor
 * @returns {Amount}
 */
function amount(energy, factor) {
  return { value: energy.joules * factor, low: energy.low * factor, high: energy.high * factor };
}

/**
 * What requests cost: one, a million, a day's and a year's.
 * @param {Range} perRequest J
 * @param {Terms} terms intensity in g CO2e per kWh
 * @returns {Line[]}
 */
export function costLines(perRequest, { perDay, price, intensity, pue }) {
  /** @type {[string, number][]} */
  const amounts = [
    ["one request", 1],
    ["a million requests", 1e6],
    ["a day", perDay],
    ["a month", (perDay * DAYS_PER_YEAR) / 12],
    ["a year", perDay * DAYS_PER_YEAR],
  ];
  return amounts.map(([name, requests]) => {
    const kwh = (requests * pue) / JOULES_PER_KWH;
    return {
      name,
      requests,
      kwh: amount(perRequest, kwh),
      money: price === null ? null : amount(perRequest, kwh * price),
      kg: amount(perRequest, (kwh * intensity) / 1000),
    };
  });
}

/**
 * A slider of even steps of the logarithm: 1, 2, 5, 10, 20, …
 * @param {number} position whole number from 0
 */
export function roundAmount(position) {
  const [ten, step] = [Math.floor(position / 3), position % 3];
  return /** @type {number} */ ([1, 2, 5][step]) * 10 ** ten;
}

/** @param {number} value */
export function amountPosition(value) {
  return nearest(Array.from({ length: 37 }, (_, position) => roundAmount(position)), value);
}
