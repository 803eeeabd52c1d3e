// What meters and machines tell of a part beside its energy, in words and units.

import { bytes, digits, integer, joules, percent, seconds, watts } from "./format.js";

/** @param {number} value of 100 */
const hundredths = (value) => percent(value / 100);
/** @param {number} value MHz */
const megahertz = (value) => `${integer(value)}\u00a0MHz`;

/** @param {number} value bytes in a second */
const rate = (value) => `${bytes(value)}/s`;

/** @type {Record<string, [string, (value: number) => string]>} */
const KNOWN = {
  time_s: ["time", seconds],
  times_mean: ["time", seconds],
  time_spread: ["time, give or take", (value) => percent(value - 1)],
  static_j: ["of it drawn by being on", joules],
  memory_share: ["memory it needs", (value) => (value > 1 ? `${digits(value)} times what there is` : `${percent(value)} of what there is`)],
  gpu_energy_mean: ["by the GPU's own meter", joules],
  cpu: ["processor busy", hundredths],
  mem: ["main memory used", hundredths],
  gpu: ["GPU busy", hundredths],
  gpu_mem: ["GPU memory busy", hundredths],
  gpu_clk: ["GPU clock", megahertz],
  gpu_mem_clk: ["GPU memory clock", megahertz],
  ranks: ["GPUs that share it", integer],
  trees: ["runs measured", integer],
  hbm_bytes_s: ["memory bandwidth", rate],
  link_bytes_s: ["between GPUs", rate],
  gflop_s: ["speed, about", (value) => `${integer(value)}\u00a0GFLOP/s`],
  measuring_s: ["measured for", seconds],
  items: ["measurements", integer],
  ops: ["of ops", integer],
  tdp_w: ["power limit", watts],
  idle_w: ["power when idle", watts],
  memory_bytes: ["memory", bytes],
  l2_bytes: ["second-level cache", bytes],
};
/** @type {[RegExp, (value: number) => string][]} units by how a name ends */
const UNITS = [[/_j$/, joules], [/_w$/, watts], [/_bytes_s$/, rate], [/_s$/, seconds], [/_bytes$/, bytes], [/_share$|utilisation$/, percent]];

/**
 * @param {Record<string, number>} features
 * @returns {[string, string][]} words and value; what is not known is left out
 */
export function featureFacts(features) {
  return Object.entries(features).filter(([, value]) => Number.isFinite(value)).map(([name, value]) => {
    const known = KNOWN[name];
    if (known) return [known[0], known[1](value)];
    const unit = UNITS.find(([ending]) => ending.test(name));
    const words = unit ? name.replace(/_(?:j|w|s|bytes)$/, "") : name;
    return [words.replaceAll("_", " "), unit ? unit[1](value) : Number.isInteger(value) ? integer(value) : digits(value, 4)];
  });
}
