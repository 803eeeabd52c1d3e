// Trees that are made up, small enough to reckon by hand.

/** A node with its children; energy of one instance is its own plus its children's. */
export function node(path, { kind = "module", op = path.split(".").pop() || "Model", own = 0, members, children = [], ...rest } = {}) {
  const count = members?.length ?? 1;
  const energy = children.reduce((sum, child) => sum + child.energy_j * child.count, own);
  return {
    path, kind, op, call: 1, count, inputs: [[8, 128]], outputs: [[8, 128, 768]], dtype: "fp32",
    params: 10, flops: 1e9, bytes_read: 100, bytes_written: 50, bytes: 150,
    ...(members ? { members: members.map(([name, place]) => ({ name, place })) } : {}),
    children, energy_j: energy, low_j: energy * 0.9, high_j: energy * 1.1, source: "predicted", own_j: own, ...rest,
  };
}

const leaf = (path, own, op) => node(path, { kind: "ml", op, own });

/** Embeddings 4 J, three equal layers of 30 J (dense 20, norm 10), a head of 6 J. */
export function threeLayers() {
  const layer = node("layer.0", {
    op: "Layer", members: [["layer.0", 1], ["layer.1", 2], ["layer.2", 3]],
    children: [leaf("layer.0.dense", 20, "Linear"), leaf("layer.0.norm", 10, "LayerNorm")],
  });
  const children = [leaf("embeddings", 4, "Embedding"), layer, leaf("head", 6, "Linear")];
  const tree = node("", { kind: "model", op: "Model", children });
  return {
    schema: "irene.tree/1", tree, energy_j: 100, low_j: 90, high_j: 110, source: "predicted", produced_by: "by hand",
    spec: { model: "three-layers", batch_size: 8, seq_len: 128, dtype: "fp32", attention: "eager", phase: "forward" },
    hardware: { name: "pc1", covers: "wall" }, provenance: {}, notes: [], unsupported: {},
  };
}
