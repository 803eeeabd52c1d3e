// The pure functions behind compare, trade-off, leaderboard, cost and what-if.

import assert from "node:assert/strict";
import { test } from "node:test";

const lib = new URL("../../../src/irene/serve/web/lib/", import.meta.url);
const { parseSubject, writeSubject, treeAddress, exploreLink, commandLine } = await import(new URL("subjects.js", lib));
const { mergedRows, alignment, sides, verdict, comparisonCells, changedSubjects } = await import(new URL("comparison.js", lib));
const { fits, chosen, ranked, frontSteps, sliderEnergy, sliderPosition, csvProblem } = await import(new URL("trade-off.js", lib));
const { sorted, counted, energyPer, intervalPer } = await import(new URL("board.js", lib));
const { costLines, roundAmount, amountPosition } = await import(new URL("costing.js", lib));
const { listValues, axes, grouped, table } = await import(new URL("grid.js", lib));

test("a subject is read and written as the command line has it", () => {
  const subject = parseSubject("gpt2@b16s256,fp16,sdpa,on=pc2");
  assert.equal(subject.model, "gpt2");
  assert.deepEqual(subject.run, { batch_size: 16, seq_len: 256, dtype: "fp16", attention: "sdpa", on: "pc2" });
  assert.equal(writeSubject("gpt2", subject.run), "gpt2@b16s256,fp16,sdpa,on=pc2");
  assert.equal(writeSubject("gpt2", subject.run, { batch_size: 16, dtype: "fp16", on: "pc2" }), "gpt2@s256,sdpa");
  assert.deepEqual(parseSubject("gpt2@p750o500,fp8").run, { prompt_len: 750, output_len: 500, phase: "generate", quantization: "fp8" });
  assert.deepEqual(parseSubject("gpt2@nonsense").unknown, ["nonsense"]);
});

test("uploads and answers are subjects, too", () => {
  const upload = parseSubject("upload:0123abcd@b4");
  assert.equal(upload.kind, "upload");
  assert.equal(upload.id, "0123abcd");
  assert.equal(upload.model, "upload:0123abcd");
  assert.deepEqual(treeAddress(upload, { seq_len: 8 }), {
    path: "/energy",
    params: { model: "upload:0123abcd", seq_len: 8, batch_size: 4 },
  });
  assert.equal(treeAddress(parseSubject("answer:ff00"), {}).path, "/answers/ff00");
  assert.equal(exploreLink(parseSubject("answer:ff00"), {}), "/?answer=ff00");
});

test("a command can be pasted into a shell whatever a name holds", () => {
  const line = commandLine("cost", ["it's; rm -rf /"], { batch_size: 8, pue: 1.2, price: null, all: true });
  assert.equal(line, "irene cost 'it'\\''s; rm -rf /' -b 8 --pue 1.2 --all");
});

const side = (name, energy_j) => ({ name, run: "", source: "", covers: "", energy_j, low_j: energy_j, high_j: energy_j, flops: 1, bytes: 1 });
const part = (name, base_j, other_j) => ({
  name, base_j, other_j, flops_j: other_j - base_j, bytes_j: 0, efficiency_j: 0,
  base_count: base_j ? 1 : 0, other_count: other_j ? 1 : 0, difference_j: other_j - base_j,
});
const comparison = (other, parts, extra = {}) => ({
  base: side("a", 10), other, per: "run", difference_j: other.energy_j - 10, low_j: other.energy_j - 11, high_j: other.energy_j - 9,
  ratio: other.energy_j / 10, is_real: true, aligned_by: "path", shared: 1, by_role: parts, by_path: parts, ...extra,
});

test("comparisons with one base become one table", () => {
  const all = [
    comparison(side("b", 12), [part("x", 6, 8), part("same", 4, 4)]),
    comparison(side("c", 9), [part("x", 6, 0), part("new", 0, 5), part("same", 4, 4)], { aligned_by: "role" }),
  ];
  assert.deepEqual(sides(all).map((each) => each.name), ["a", "b", "c"]);
  assert.equal(alignment(all), "role");
  const rows = mergedRows(all, "path");
  assert.deepEqual(rows.map((row) => [row.name, row.energies, row.isDifferent]), [
    ["x", [6, 8, 0], true], ["new", [0, 0, 5], true], ["same", [4, 4, 4], false],
  ]);
  assert.equal(rows[1].deltas[0], null);
  const cells = comparisonCells(rows, ["a", "b", "c"]);
  assert.equal(cells[0].length, cells[1].length);
  const format = { joules: (j) => `${j} J`, change: (share) => `${Math.round(share * 100)}%` };
  assert.deepEqual(verdict(all[0], format), { takes: "takes 2 J ± 1 J more (20%) than", than: "" });
  assert.match(verdict({ ...all[1], is_real: false }, format).than, /no difference/);
  assert.match(verdict({ ...all[0], difference_j: 0 }, format).takes, /the same/);
});

test("subjects are added, removed, replaced and made the base", () => {
  const three = ["a", "b", "c"];
  assert.deepEqual(changedSubjects(three, { type: "base", index: 2 }), ["c", "a", "b"]);
  assert.deepEqual(changedSubjects(three, { type: "remove", index: 0 }), ["b", "c"]);
  assert.deepEqual(changedSubjects(three, { type: "add", text: "d" }), ["a", "b", "c", "d"]);
  assert.deepEqual(changedSubjects(three, { type: "replace", index: 1, text: "d" }), ["a", "d", "c"]);
});

const candidate = (model, joules, accuracy, on_front) => ({
  model, accuracy, energy: { joules, low: joules, high: joules }, on_front, beaten_by: "", maybe: false, split: "", source: "", notes: [],
});
const CANDIDATES = [candidate("tiny", 1, 80, true), candidate("odd", 2, 70, false), candidate("mid", 3, 90, true), candidate("big", 9, 95, true)];

test("budgets choose as the command does", () => {
  const none = { budget_j: null, at_least: null };
  assert.equal(chosen(CANDIDATES, none), null);
  assert.equal(chosen(CANDIDATES, { ...none, budget_j: 4 }).model, "mid");
  assert.equal(chosen(CANDIDATES, { ...none, at_least: 85 }).model, "mid");
  assert.equal(chosen(CANDIDATES, { budget_j: 2, at_least: 85 }), null);
  assert.deepEqual(ranked(CANDIDATES, { ...none, budget_j: 4 }).map((each) => each.model), ["mid", "tiny", "odd", "big"]);
  assert.ok(!fits(CANDIDATES[3], { ...none, budget_j: 4 }));
  assert.deepEqual(frontSteps(CANDIDATES), [[1, 80], [3, 80], [3, 90], [9, 90], [9, 95]]);
});

test("a slider of energies goes there and back", () => {
  for (const energy of [0.03, 0.5, 7.25, 37]) {
    const back = sliderEnergy(sliderPosition(energy, 0.02, 40), 0.02, 40);
    assert.ok(Math.abs(Math.log(back / energy)) < 0.02, `${energy} ${back}`);
  }
  assert.equal(sliderPosition(5, 1, 1), 1000);
});

test("a table of accuracies that cannot be is told at once", () => {
  assert.equal(csvProblem("model,accuracy\nbert,90\n"), "");
  assert.equal(csvProblem("\ufeffModel , Accuracy,source\r\nbert,90,me\r\n"), "");
  assert.match(csvProblem("name,accuracy\nbert,90"), /model is missing/);
  assert.match(csvProblem("model,accuracy\n"), /no rows/);
});

const entry = (model, family, params, joules) => ({
  place: 1, model, family, kind: "encoder", params, flops: params * 2,
  energy: joules === null ? null : { joules, low: joules * 0.9, high: joules * 1.2, source: "predicted" },
  per_sequence_j: joules === null ? null : joules / 8, per_token_j: null, is_extrapolated: false, problem: joules === null ? "too long" : "",
});
const ENTRIES = [entry("bert-base", "bert", 1e8, 8), entry("gpt2", "gpt2", 2e8, null), entry("bert-large", "bert", 3e8, 24)];

test("the leaderboard sorts", () => {
  assert.deepEqual(sorted(ENTRIES, "energy", true, "run").map((each) => each.model), ["bert-large", "bert-base", "gpt2"]);
  assert.deepEqual(sorted(ENTRIES, "energy", false, "run").map((each) => each.model), ["bert-base", "bert-large", "gpt2"]);
  assert.deepEqual(counted(ENTRIES, "family"), [["bert", 2], ["gpt2", 1]]);
  assert.equal(energyPer(ENTRIES[0], "sequence"), 1);
  assert.deepEqual(intervalPer(ENTRIES[0], "sequence"), [0.9, 1.2].map((each) => (each * 8) / 8));
});

test("costs follow the server's formula", () => {
  const [one, million, day, month, year] = costLines({ joules: 3.6, low: 1.8, high: 7.2 }, { perDay: 1000, price: 0.2, intensity: 500, pue: 1.5 });
  assert.equal(one.kwh.value, 1.5e-6);
  assert.equal(million.money.value.toFixed(6), "0.300000");
  assert.equal(million.kg.high.toFixed(6), "1.500000");
  assert.equal(year.requests, 365250);
  assert.ok(Math.abs(month.kwh.value * 12 - year.kwh.value) < 1e-9);
  assert.equal(day.requests, 1000);
  assert.equal(costLines({ joules: 1, low: 1, high: 1 }, { perDay: 1, price: null, intensity: 0, pue: 1 })[0].money, null);
  for (const position of [0, 7, 20, 36]) assert.equal(amountPosition(roundAmount(position)), position);
});

test("lists of sizes are read as the command reads them", () => {
  assert.deepEqual(listValues("1,8, 32"), [1, 8, 32]);
  assert.deepEqual(listValues("64:256:64"), [64, 128, 192, 256]);
  assert.deepEqual(listValues("1,1:3"), [1, 2, 3]);
  for (const wrong of ["", "a", "1,,2", "0", "-4", "1.5", "1:2:3:4", "5:1"]) assert.equal(listValues(wrong), null, wrong);
  assert.equal(listValues("1:9999999"), null);
});

test("a grid has rows, columns and groups", () => {
  const outcome = (batch_size, seq_len, dtype, joules) => ({
    settings: { batch_size, seq_len, dtype }, energy: { joules, low: joules, high: joules }, problem: "", per_sequence_j: joules / batch_size, per_token_j: null,
  });
  const rows = [outcome(1, 64, "fp32", 1), outcome(8, 64, "fp32", 4), outcome(1, 64, "fp16", 0.5)];
  const found = axes({ batch_size: [1, 8], seq_len: [64, 128], dtype: ["fp32", "fp16"] });
  assert.deepEqual(found, { rows: "batch_size", columns: "seq_len", others: ["dtype"] });
  assert.deepEqual(axes({ num_hidden_layers: [6, 12], batch_size: [1] }).rows, "num_hidden_layers");
  const groups = grouped(rows, found.others);
  assert.deepEqual([...groups.keys()], ["dtype fp32", "dtype fp16"]);
  const one = table(groups.get("dtype fp32"), found.rows, found.columns);
  assert.deepEqual(one.rows, [1, 8]);
  assert.equal(energyPer(one.cell(8, 64), "sequence"), 0.5);
  assert.equal(one.cell(8, 128), undefined);
  assert.ok(Number.isNaN(energyPer({ ...rows[0], problem: "too long" }, "run")));
});

test("drawings hold names as text, whatever they are", async () => {
  const { barsSvg, mapSvg } = await import(new URL("picture.js", lib));
  const evil = `<script>alert("x")</script>&`;
  for (const svg of [
    barsSvg(evil, [{ label: evil, value: 2, text: evil }, { label: "none", value: NaN, text: "–" }]),
    mapSvg(evil, [evil], [evil], () => ({ level: 0.5, text: evil })),
  ]) {
    assert.ok(!svg.includes("<script"));
    assert.ok(svg.includes("&#60;script&#62;"));
    assert.match(svg, /^<svg xmlns/);
    assert.ok(!svg.includes("NaN"));
  }
});

test("what a browser remembers is checked before it is shown", async () => {
  const { parseRecent, withRecent } = await import(new URL("recent.js", lib));
  const one = { kind: "job", name: "a", href: "/jobs/1", when: 1 };
  assert.deepEqual(parseRecent(JSON.stringify([one, { ...one, href: "javascript:alert(1)" }, { ...one, href: "//elsewhere.org" }, 3])), [one]);
  assert.deepEqual(parseRecent("{"), []);
  assert.deepEqual(parseRecent(null), []);
  const all = withRecent([one], { ...one, name: "again" });
  assert.deepEqual(all.map((each) => each.name), ["again"]);
});
