// The machines that energy can be predicted for, in words.

import { useList } from "./answer.js";

/** @typedef {{name: string, words: string, serves: boolean, covers: string, usual: boolean}} Machine usual: taken where nobody says */

/** @returns {Machine[]} what the server knows, empty until it is there */
export const useMachines = () => useList("/hardware", (answer) => answer.hardware.map((/** @type {any} */ each) => machine(each, answer.default?.name)));

/**
 * @param {any} each of `irene.hardware/1`
 * @param {string} [usual] name of the machine that is taken where nobody says
 * @returns {Machine}
 */
export function machine(each, usual = "") {
  const { name, covers, description } = each.hardware;
  return { name, covers, words: each.words ?? (description ? `${name} (${description})` : name), serves: Boolean(each.datasheet), usual: name === usual };
}
