// Power over time, ready to draw: a step line per channel, and lanes of what ran.

/**
 * @typedef {{name: string, time_s: number[], power_w: (number | null)[]}} Channel
 * @typedef {{scope: string, phase: string, device: string, start_s: number, end_s: number}} Stretch
 * @typedef {{label: string, start_s: number, end_s: number}} Step
 * @typedef {{channels: Channel[], steps: Step[], modules: Stretch[]}} Timeline
 */

/**
 * @param {Timeline} timeline
 * @returns {number} seconds
 */
export function length(timeline) {
  return Math.max(0, ...timeline.channels.map((channel) => channel.time_s.at(-1) ?? 0), ...timeline.steps.map((step) => step.end_s));
}

/**
 * Largest known power of the channels shown, W.
 * @param {readonly Channel[]} channels
 */
export function peak(channels) {
  let most = 0;
  for (const channel of channels) for (const watts of channel.power_w) most = Math.max(most, watts ?? 0);
  return most;
}

/**
 * Step line between two times: pieces of known power, each a list of points (s, W).
 * @param {Channel} channel
 * @param {number} from s
 * @param {number} to s
 * @returns {[number, number][][]}
 */
export function pieces(channel, from, to) {
  /** @type {[number, number][][]} */
  const found = [];
  /** @type {[number, number][]} */
  let piece = [];
  channel.power_w.forEach((watts, index) => {
    const [start, end] = [channel.time_s[index] ?? 0, channel.time_s[index + 1] ?? 0];
    if (end <= from || start >= to) return;
    if (watts === null) {
      if (piece.length) found.push(piece);
      piece = [];
      return;
    }
    piece.push([Math.max(start, from), watts], [Math.min(end, to), watts]);
  });
  if (piece.length) found.push(piece);
  return found;
}

/**
 * Energy of a channel between two times, J; what is not known counts as nothing.
 * @param {Channel} channel
 * @param {number} from s
 * @param {number} to s
 */
export function energyBetween(channel, from, to) {
  let total = 0;
  for (const piece of pieces(channel, from, to)) {
    for (let index = 0; index < piece.length; index += 2) {
      const [start, watts] = /** @type {[number, number]} */ (piece[index]);
      total += watts * (/** @type {[number, number]} */ (piece[index + 1])[0] - start);
    }
  }
  return total;
}

/**
 * What ran at a time.
 * @param {Timeline} timeline
 * @param {number} time s
 */
export function runningAt(timeline, time) {
  const there = (/** @type {{start_s: number, end_s: number}} */ each) => each.start_s <= time && time < each.end_s;
  return { step: timeline.steps.find(there) ?? null, modules: timeline.modules.filter(there) };
}

/**
 * Lanes for the modules: a lane per device, more where they overlap.
 * @param {readonly Stretch[]} modules in the order they began
 * @returns {{device: string, modules: Stretch[]}[]}
 */
export function lanes(modules) {
  /** @type {{device: string, end: number, modules: Stretch[]}[]} */
  const found = [];
  for (const module of modules) {
    let lane = found.find((each) => each.device === module.device && each.end <= module.start_s + 1e-9);
    if (!lane) {
      lane = { device: module.device, end: 0, modules: [] };
      found.push(lane);
    }
    lane.modules.push(module);
    lane.end = module.end_s;
  }
  return found
    .sort((a, b) => a.device.localeCompare(b.device))
    .map(({ device, modules: own }) => ({ device, modules: own }));
}
