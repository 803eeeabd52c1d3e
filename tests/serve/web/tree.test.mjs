import assert from "node:assert/strict";
import { test } from "node:test";
import * as questions from "../../../src/irene/serve/web/lib/questions.js";
import * as rows from "../../../src/irene/serve/web/lib/rows.js";
import * as core from "../../../src/irene/serve/web/lib/tree.js";
import { threeLayers, node } from "./made-up.mjs";

const t = { ...core, ...rows, ...questions };

const near = (actual, wanted) => assert.ok(Math.abs(actual - wanted) < 1e-9, `${actual} is not ${wanted}`);

test("a folded row counts all layers it stands for", () => {
  const tree = t.loadTree(threeLayers());
  const layer = t.findRow(tree, "layer.0");
  assert.equal(tree.count[layer], 3);
  near(tree.share[layer], 0.9);
  near(tree.parentShare[layer], 0.9);
  const dense = t.findRow(tree, "layer.0.dense");
  near(tree.share[dense], 0.6);
  near(tree.parentShare[dense], 2 / 3);
  assert.equal(tree.nodeCount, 12);
  assert.equal(t.label(tree, layer), "layer.0–2");
  assert.equal(t.displayPath(tree, dense), "layer.*.dense");
});

test("unfolded, every layer stands in its place and the shares add up", () => {
  const tree = t.loadTree(threeLayers(), { all: true });
  assert.deepEqual(t.childrenOf(tree, 0).map((row) => tree.path[row]), ["embeddings", "layer.0", "layer.1", "layer.2", "head"]);
  assert.equal(tree.size, tree.nodeCount);
  near(t.childrenOf(tree, 0).reduce((sum, row) => sum + tree.share[row], 0), 1);
  assert.ok(t.findRow(tree, "layer.2.norm") > 0);
});

test("one group can be unfolded on demand, another stays folded", () => {
  const inner = node("b.0", { own: 5, members: [["b.0", 0], ["b.1", 1]] });
  const outer = node("a.0", { own: 1, members: [["a.0", 2], ["a.1", 3]] });
  const tree = t.loadTree({ ...threeLayers(), tree: node("", { kind: "model", children: [inner, outer] }) }, { unfolded: ["a.0"] });
  assert.deepEqual(t.childrenOf(tree, 0).map((row) => [tree.path[row], tree.count[row]]), [["b.0", 2], ["a.0", 1], ["a.1", 1]]);
});

test("a layer that is folded away is found as its group", () => {
  const tree = t.loadTree(threeLayers());
  assert.equal(tree.path[t.findRow(tree, "layer.2.dense")], "layer.0.dense");
  assert.equal(t.findRow(tree, "."), 0);
  assert.equal(t.findRow(tree, "no.such"), -1);
});

test("search counts what is below a match once", () => {
  const tree = t.loadTree(threeLayers());
  const found = t.search(tree, "layer");
  assert.equal(found.nodes, 6); // three layers, and their LayerNorms by class
  near(found.share, 0.9);
  near(t.search(tree, "dense").share, 0.6);
  near(t.search(tree, "linear").share, 0.66);
  assert.equal(t.search(tree, "  "), null);
  assert.equal(t.search(tree, "nothing at all").rows, 0);
});

test("the fewest leaves that carry 90 %", () => {
  const top = t.topLeaves(t.loadTree(threeLayers()));
  assert.equal(top.rows.length, 2);
  near(top.share, 0.9);
  assert.equal(top.leaves, 4);
});

test("sums by primitive add up to the whole", () => {
  const groups = t.aggregate(t.loadTree(threeLayers()), "primitive");
  assert.deepEqual(groups.map((group) => group.name), ["Linear", "LayerNorm", "Embedding"]);
  near(groups.reduce((sum, group) => sum + group.share, 0), 1);
  assert.equal(groups[0].nodes, 4);
});

test("energy that belongs to no primitive is named", () => {
  const tree = node("", { kind: "model", own: 25, children: [node("a", { kind: "ml", op: "Linear", own: 75 })] });
  const groups = t.aggregate(t.loadTree({ ...threeLayers(), tree }), "primitive");
  assert.deepEqual(groups.map((group) => [group.name, group.share]), [["Linear", 0.75], ["(own)", 0.25]]);
});

test("of equal classes inside each other only the outer one counts", () => {
  const deep = node("a", { op: "Box", own: 1, children: [node("a.b", { op: "Box", own: 3 })] });
  const groups = t.aggregate(t.loadTree({ ...threeLayers(), tree: node("", { kind: "model", children: [deep] }) }), "class");
  assert.deepEqual(groups.map((group) => [group.name, group.value]), [["Box", 4]]);
});

test("rows on screen follow what is open, the threshold and the search", () => {
  const tree = t.loadTree(threeLayers());
  const paths = (open, options) => [...t.visibleRows(tree, open, options)].map((row) => tree.path[row]);
  assert.deepEqual(paths(t.openTo(tree, 0)), [""]);
  assert.deepEqual(paths(t.openTo(tree, 1)), ["", "embeddings", "layer.0", "head"]);
  assert.deepEqual(paths(t.openTo(tree, Infinity), { minShare: 0.1 }), ["", "layer.0", "layer.0.dense", "layer.0.norm"]);
  const only = t.withAncestors(tree, t.search(tree, "norm").hits);
  assert.deepEqual(paths(t.openTo(tree, 9), { only }), ["", "layer.0", "layer.0.norm"]);
});

test("at first the parts that matter are open", () => {
  const tree = t.loadTree(threeLayers());
  assert.deepEqual([...t.openMain(tree)], [1, 0, 1, 0, 0, 0]);
});

test("what costs nothing is hidden unless asked for", () => {
  const view = node("view", { kind: "ml", flops: 0, bytes: 0 });
  const tree = t.loadTree({ ...threeLayers(), tree: node("", { kind: "model", own: 1, children: [view] }) });
  assert.equal(t.visibleRows(tree, t.openTo(tree, 1)).length, 1);
  assert.equal(t.visibleRows(tree, t.openTo(tree, 1), { minShare: -1 }).length, 2);
});

test("unfolding keeps open what was open", () => {
  const folded = t.loadTree(threeLayers());
  const tree = t.loadTree(threeLayers(), { all: true });
  const open = t.carryOpen(folded, t.openTo(folded, 2), tree, 0);
  for (const path of ["layer.0", "layer.1", "layer.2"]) assert.equal(open[t.findRow(tree, path)], 1);
});

test("names of members show gaps", () => {
  assert.equal(t.memberNames(["h.0", "h.1", "h.2", "h.5"]), "h.0–2,5");
  assert.equal(t.memberNames(["a", "b"]), "a");
});

test("a tree without energy is shown by its FLOPs", () => {
  const document = threeLayers();
  delete document.tree.energy_j;
  const tree = t.loadTree(document);
  assert.equal(tree.basis, "flops");
});

test("a document without a tree is refused", () => {
  assert.throws(() => t.loadTree({ schema: "irene.job/1" }), /no tree/);
});
