// Power over time, from the document of a ledger.

import assert from "node:assert/strict";
import { test } from "node:test";

const lib = new URL("../../../src/irene/serve/web/lib/timeline.js", import.meta.url);
const { length, peak, pieces, energyBetween, runningAt, lanes } = await import(lib);

const CHANNEL = { name: "wall", time_s: [0, 1, 2, 3, 4], power_w: [10, 20, null, 40] };
const stretch = (scope, device, start_s, end_s) => ({ scope, phase: "forward", device, start_s, end_s });
const TIMELINE = {
  channels: [CHANNEL],
  steps: [{ label: "#1", start_s: 0, end_s: 2 }],
  modules: [stretch("a", "cpu", 0, 1), stretch("b", "cuda:0", 0.5, 1.5), stretch("c", "cpu", 0.8, 2), stretch("d", "cpu", 1, 2)],
};

test("unknown power is a gap, never a zero", () => {
  assert.deepEqual(pieces(CHANNEL, 0, 4), [[[0, 10], [1, 10], [1, 20], [2, 20]], [[3, 40], [4, 40]]]);
  assert.equal(peak([CHANNEL]), 40);
  assert.equal(length(TIMELINE), 4);
});

test("energy between two times", () => {
  assert.equal(energyBetween(CHANNEL, 0, 4), 70);
  assert.equal(energyBetween(CHANNEL, 0.5, 1.5), 15);
  assert.equal(energyBetween(CHANNEL, 2, 3), 0);
});

test("what ran when, and lanes without overlaps", () => {
  const now = runningAt(TIMELINE, 0.9);
  assert.equal(now.step.label, "#1");
  assert.deepEqual(now.modules.map((each) => each.scope), ["a", "b", "c"]);
  assert.equal(runningAt(TIMELINE, 3).step, null);
  assert.deepEqual(lanes(TIMELINE.modules).map((lane) => [lane.device, lane.modules.map((each) => each.scope)]), [
    ["cpu", ["a", "d"]], ["cpu", ["c"]], ["cuda:0", ["b"]],
  ]);
});
