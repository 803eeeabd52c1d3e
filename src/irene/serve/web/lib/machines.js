// The machines that energy can be predicted for, in words.

import { useEffect, useState } from "../vendor/preact.js";
import { getOnce } from "./api.js";

/** @typedef {{name: string, words: string, serves: boolean, covers: string}} Machine */

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
    getOnce("/hardware").then((answer) => here && setMachines(answer.hardware.map(machine)), () => {});
    return () => {
      here = false;
    };
  }, []);
  return machines;
}

/** @param {any} each of `irene.hardware/1` */
export function machine(each) {
  const { name, covers, description } = each.hardware;
  return { name, covers, words: each.words ?? (description ? `${name} (${description})` : name), serves: Boolean(each.datasheet) };
}
