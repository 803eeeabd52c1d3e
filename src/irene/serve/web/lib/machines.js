// The machines that energy can be predicted for, in words.

import { useEffect, useState } from "../vendor/preact.js";
import { getOnce } from "./api.js";

/** @typedef {{name: string, words: string, serves: boolean, covers: string, usual: boolean}} Machine usual: taken where nobody says */

/** @type {Record<string, string>} */
export const COVERS = {
  wall: "the whole machine at the wall socket", "gpu-board": "the GPU board alone", "cpu-package": "the processor alone",
};

/**
 * Hook: what the server knows, empty until it is there.
 * @returns {Machine[]}
 */
export function useMachines() {
  const [machines, setMachines] = useState(/** @type {Machine[]} */ ([]));
  useEffect(() => {
    let here = true;
    getOnce("/hardware").then((answer) => here && setMachines(answer.hardware.map((/** @type {any} */ each) => machine(each, answer.default?.name))), () => {});
    return () => {
      here = false;
    };
  }, []);
  return machines;
}

/**
 * @param {any} each of `irene.hardware/1`
 * @param {string} [usual] name of the machine that is taken where nobody says
 * @returns {Machine}
 */
export function machine(each, usual = "") {
  const { name, covers, description } = each.hardware;
  return { name, covers, words: each.words ?? (description ? `${name} (${description})` : name), serves: Boolean(each.datasheet), usual: name === usual };
}
