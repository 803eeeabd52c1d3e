import assert from "node:assert/strict";
import { test } from "node:test";
import * as f from "../../../src/irene/serve/web/lib/format.js";
import * as state from "../../../src/irene/serve/web/lib/state.js";
import * as colour from "../../../src/irene/serve/web/lib/colour.js";
import * as scale from "../../../src/irene/serve/web/lib/scale.js";
import { asServing, carried, isServing, readRun, runChanges, runOptions } from "../../../src/irene/serve/web/lib/run.js";
import { commandLine } from "../../../src/irene/serve/web/lib/subjects.js";
import { findModels, longest } from "../../../src/irene/serve/web/lib/catalogue.js";
import { csvText, fileName } from "../../../src/irene/serve/web/lib/export.js";
import { icicleSvg, nodeLinkSvg, treeRows } from "../../../src/irene/serve/web/lib/picture.js";
import { boxAt, layoutIcicle, step } from "../../../src/irene/serve/web/lib/icicle.js";
import { headline, sentence } from "../../../src/irene/serve/web/lib/headline.js";
import { featureFacts } from "../../../src/irene/serve/web/lib/features.js";
import { machine } from "../../../src/irene/serve/web/lib/machines.js";
import { fieldLabel, inWords, setRunFields } from "../../../src/irene/serve/web/lib/parameters.js";
import { nearest, position, steps } from "../../../src/irene/serve/web/lib/sizes.js";
import { openTo, visibleRows } from "../../../src/irene/serve/web/lib/rows.js";
import { findRow, loadTree } from "../../../src/irene/serve/web/lib/tree.js";
import { threeLayers } from "./made-up.mjs";

const plain = (text) => text.replaceAll("\u00a0", " ");

test("energies have three digits and a unit that fits", () => {
  const cases = [[14.0513, "14.1 J"], [0.00000429, "4.29 µJ"], [4130, "4.13 kJ"], [0, "0 J"], [999.9, "1.00 kJ"], [1e7, "10.0 MJ"], [null, "–"], [NaN, "–"]];
  for (const [value, wanted] of cases) assert.equal(plain(f.joules(value)), wanted);
});

test("shares, intervals and counts", () => {
  assert.equal(plain(f.percent(0.784)), "78 %");
  assert.equal(plain(f.percent(0.9957)), "99.6 %");
  assert.equal(plain(f.percent(0.00001)), "< 0.01 %");
  assert.equal(plain(f.interval(10, 9.7, 10.3)), "± 3.0 %");
  assert.equal(plain(f.interval(10, 9.5, 12)), "−5.0 % / +20 %");
  assert.equal(plain(f.interval(10, 4, 25)), "factor 2.5");
  assert.equal(plain(f.interval(10, 5, 41)), "÷2.0 ×4.1");
  assert.equal(plain(f.interval(10, 0, 35)), "−100 % / +250 %", "no factor reaches nothing");
  assert.equal(f.interval(10, null, null), "");
  assert.equal(f.interval(10, 10, 10), "", "as given");
  assert.equal(plain(f.change(0.12)), "+12 %");
  assert.equal(plain(f.change(-0.031)), "−3.1 %");
  assert.equal(plain(f.count(68976653312)), "69.0 B");
  assert.equal(plain(f.bytes(2643404800)), "2.64 GB");
  assert.equal(f.shapes([[8, 128], []]), "8×128, scalar");
  assert.equal(f.integer(-1234567), "−1,234,567");
  assert.equal(f.digits(123456, 4), "123,500");
  assert.equal(f.plural(1, "match", "matches"), "1 match");
});

test("the address keeps the state and leaves out defaults", () => {
  assert.deepEqual({ ...state.readQuery("?a=1&b=x&b=y&c=%3Cb%3E") }, { a: "1", b: ["x", "y"], c: "<b>" });
  assert.equal(state.writeQuery({ a: 1, b: ["x", "y"], c: null, d: "", e: "k@b8s2" }, { a: 1 }), "?b=x&b=y&e=k@b8s2");
  assert.equal(state.writeQuery({}), "");
  const query = state.readQuery("?n=12&bad=x&view=icicle&all=1&__proto__=1");
  assert.equal(state.number(query, "n", 3), 12);
  assert.equal(state.number(query, "bad", 3), 3);
  assert.equal(state.choice(query, "view", ["table", "icicle"]), "icicle");
  assert.equal(state.choice(query, "bad", ["table", "icicle"]), "table");
  assert.equal(state.flag(query, "all"), true);
  assert.deepEqual(state.list(query, "none"), []);
});

test("paths find their page", () => {
  const pages = ["/", "/compare", "/jobs/:id"];
  assert.deepEqual(state.matchPath(pages, "/"), { pattern: "/", params: {} });
  assert.deepEqual(state.matchPath(pages, "/jobs/a%20b"), { pattern: "/jobs/:id", params: { id: "a b" } });
  assert.equal(state.matchPath(pages, "/jobs/"), null);
  assert.equal(state.matchPath(pages, "/other"), null);
});

test("the ramp keeps its order without colour, and text on it is readable", () => {
  for (const dark of [false, true]) {
    let before = null;
    for (let i = 0; i <= 100; i++) {
      const light = colour.luminance(colour.rampRgb(i / 100, dark));
      if (before !== null) assert.ok(dark ? light >= before : light <= before, `step ${i}, dark ${dark}`);
      before = light;
      const ink = colour.inkOn(i / 100, dark).match(/\d+/g).map(Number);
      assert.ok(colour.contrast(ink, colour.rampRgb(i / 100, dark)) >= 4.5, `contrast at ${i}, dark ${dark}`);
    }
  }
});

test("ticks are round and inside", () => {
  assert.deepEqual(scale.niceTicks(0, 10, 5), [0, 2, 4, 6, 8, 10]);
  assert.deepEqual(scale.logTicks(1, 100), [1, 2, 5, 10, 20, 50, 100]);
  const x = scale.log([1, 100], [0, 200]);
  assert.equal(x(10), 100);
  assert.ok(Math.abs(x.invert(100) - 10) < 1e-9);
  assert.deepEqual(scale.extent([]), [0, 1]);
});

const FIELDS = ["batch_size", "seq_len", "decoder_len", "dtype", "attention", "phase"].map((name) => ({ name, serving: false }))
  .concat(["prompt_len", "output_len", "tensor_parallel"].map((name) => ({ name, serving: true })));

test("a run is named alike in the address, the API and the command", () => {
  setRunFields(FIELDS);
  const run = readRun(state.readQuery("?model=gpt2&seq_len=256&view=tree&path=h.0&decoder_len=4&utm_source=x&foo=bar"));
  assert.deepEqual(run, { batch_size: "8", seq_len: "256", dtype: "", attention: "", phase: "", on: "default", decoder_len: "4" });
  assert.equal(commandLine("predict", ["gpt2"], runOptions(run)), "irene predict gpt2 -b 8 -s 256 --decoder-seq 4");
  assert.equal(runChanges({ ...run, seq_len: "128" }).seq_len, null);
  assert.match(commandLine("predict", ["a'b; rm"]), /'a'\\''b; rm'/);
  assert.equal(fieldLabel("power_limit"), "Power limit");
});

test("a serving has prompts and streams, and no sequence length", () => {
  setRunFields(FIELDS);
  const run = readRun(state.readQuery("?on=h100&batch_size=64&prompt_len=750&output_len=500&seq_len=64"));
  assert.ok(isServing(run));
  assert.equal("seq_len" in run, false);
  const back = asServing({ ...run, tensor_parallel: "4" }, false, "h100");
  assert.equal(isServing(back), false);
  assert.deepEqual([back.batch_size, back.seq_len, back.on, back.tensor_parallel], ["8", "128", "h100", undefined]);
});

test("the subject goes along to other pages, and what belongs to one page does not", () => {
  setRunFields(FIELDS);
  const along = carried(state.readQuery("?model=gpt2&batch_size=1,8,32&seq_len=64&upload=ab&view=tree&search=x&hardware=h100"));
  assert.equal(along, "?model=gpt2&upload=ab&batch_size=1&seq_len=64&on=h100"); // old links say hardware
});

test("the catalogue is searched by words", () => {
  const models = [{ name: "bert-large" }, { name: "bert-base", kind: "encoder" }, { name: "gpt2", family: "gpt2", aliases: ["openai/gpt2"] }];
  assert.deepEqual(findModels(models, "bert").map((m) => m.name), ["bert-base", "bert-large"]);
  assert.deepEqual(findModels(models, "base BERT").map((m) => m.name), ["bert-base"]);
  assert.deepEqual(findModels(models, "openai").map((m) => m.name), ["gpt2"]);
  assert.equal(findModels(models, "").length, 3);
  assert.equal(longest({ name: "x", config: { max_position_embeddings: 512 } }), 512);
});

test("sliders have steps, and any number has a place on them", () => {
  assert.deepEqual(steps(1, 16), [1, 2, 3, 4, 6, 8, 12, 16]);
  assert.equal(nearest([1, 2, 3, 4, 6, 8], 7), 5);
});

test("what a machine tells beside energy is in words and units", () => {
  const told = featureFacts({ time_s: 0.0176, memory_share: 0.001522, gpu: 50, gpu_power_w: 181.25, odd_share: 0.5, ranks: NaN });
  const wanted = ["time: 17.6 ms", "memory it needs: 0.15 % of what there is", "GPU busy: 50 %", "gpu power: 181 W", "odd share: 50 %"];
  assert.deepEqual(told.map((pair) => plain(pair.join(": "))), wanted);
  assert.equal(plain(featureFacts({ memory_share: 230 })[0][1]), "230 times what there is");
});

test("advice for the terminal is told in the words of the form", () => {
  assert.equal(inWords("warning: the fewest GPUs that hold them are --tensor-parallel 4"), "the fewest GPUs that hold them are “GPUs per model” 4");
  assert.equal(inWords("generate is for data-centre GPUs (--on h100, h200)"), "generate is for data-centre GPUs (hardware h100, h200)");
  assert.equal(inWords("the limit is 100; set IRENE_NO_LIMITS=1 or give --no-limits if you mean it"), "the limit is 100; whoever runs this server can lift it");
  assert.equal(machine({ hardware: { name: "pc1" }, words: "pc1 (a desktop)" }, "pc1").usual, true);
});

test("a size stands on its curve where the thumb of its slider is", () => {
  const values = steps(1, 256);
  for (const [i, value] of values.entries()) assert.ok(Math.abs(position(values, value) - i / (values.length - 1)) < 1e-12);
  assert.ok(position(values, 10) > position(values, 8) && position(values, 10) < position(values, 12));
  assert.equal(position(values, 257), -1);
});

test("spreadsheets run nothing, and quotes survive", () => {
  assert.equal(csvText([["a", "=1+1"], ['say "x"', 2], [null, NaN]]), "a,'=1+1\r\n\"say \"\"x\"\"\",2\r\n,\r\n");
  assert.equal(fileName("../../etc/passwd <b>"), "__.._etc_passwd_b_");
});

test("an icicle's boxes are as wide as their share and nested", () => {
  const tree = loadTree(threeLayers());
  const boxes = layoutIcicle(tree, 0, 1000);
  const at = (path) => boxes.rows.indexOf(findRow(tree, path));
  assert.equal(boxes.levels, 3);
  assert.equal(boxes.width[at("layer.0")], 900);
  assert.equal(boxes.x[at("layer.0")], 40);
  assert.equal(boxes.width[at("layer.0.dense")], 600);
  assert.equal(boxes.rows[boxAt(boxes, 700, 2)], findRow(tree, "layer.0.norm"));
  assert.equal(boxAt(boxes, 10, 2), -1);
  assert.equal(step(tree, 0, 0, "ArrowDown"), findRow(tree, "layer.0"));
  assert.equal(step(tree, 0, findRow(tree, "layer.0"), "ArrowRight"), findRow(tree, "head"));
  assert.equal(step(tree, 0, findRow(tree, "head"), "ArrowUp"), 0);
});

test("pictures for export hold every part, and names are text", () => {
  const document = threeLayers();
  document.spec.model = "<script>alert(1)</script>&";
  const tree = loadTree(document);
  for (const svg of [icicleSvg(tree), nodeLinkSvg(tree, visibleRows(tree, openTo(tree, 9)))]) {
    assert.ok(!svg.includes("<script"));
    assert.match(svg, /layer\.0–2 ×3/);
    assert.match(svg, /dense/);
  }
  const rows = treeRows(tree);
  assert.equal(rows.length, tree.size + 1);
  assert.equal(rows[1][rows[0].indexOf("energy_j")], 100);
});

test("the headline says what, how much and where", () => {
  const tree = loadTree(threeLayers());
  const text = plain(sentence(tree));
  assert.match(text, /^three-layers, 8 × 128 tokens on pc1: 100 J ± 10 %, predicted; 90 % in the 3 equal layers layer\.0–2, 6\.0 % in head/);
  const { per } = headline(tree);
  assert.deepEqual(per.slice(0, 2).map(([name, value]) => [name, plain(value)]), [["per sequence", "12.5 J"], ["per token", "97.7 mJ"]]);
});

