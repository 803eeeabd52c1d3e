// One node in full: hover shows it, a click pins it.

import { html } from "../vendor/preact.js";
import { bytes, count, flops, integer, interval, joules, percent, perGflop, range, shapes } from "../lib/format.js";
import { featureFacts } from "../lib/features.js";
import { opWord } from "../lib/headline.js";
import { displayPath } from "../lib/tree.js";

const KINDS = { model: "model", module: "module", ml: "ML primitive", math: "math operation" };

/**
 * @param {{view: import("./TreeTable.js").View, row: number, pinned: boolean, hovering: boolean, onOpen?: (row: number) => void}} props
 */
export function NodeDetails({ view, row, pinned, hovering, onOpen }) {
  const { tree } = view;
  const node = tree.nodes[row];
  if (!node) return null;
  const times = tree.times[row];
  const known = Number.isFinite(node.energy_j ?? NaN);
  const told = featureFacts(node.features ?? {});
  return html`<section class="panel details" tabindex="0" aria-label="Details of a part" data-details=${tree.path[row]}>
    <div class="details-head">
      <div>
        <div class="details-path">${displayPath(tree, row)}${times > 1 ? ` ×${integer(times)}` : ""}</div>
        <div class="soft">${opWord(node.op)} · ${/** @type {any} */ (KINDS)[node.kind] ?? node.kind}</div>
      </div>
      ${pinned
        ? html`<button type="button" class="quiet" onClick=${() => view.select(-1)} title="Let it go">Unpin</button>`
        : html`<span class="soft">${hovering ? "click to pin" : ""}</span>`}
    </div>
    ${known && html`<p class="big-energy">${joules((node.energy_j ?? 0) * times)} <small>${interval(node.energy_j, node.low_j, node.high_j)}, ${node.source}</small></p>`}
    <dl class="facts">
      ${facts(view, row).map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}
    </dl>
    ${told.length > 0 && html`<h2 class="features-title">Also ${node.source ?? "told"}</h2><dl class="facts">
      ${told.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}
    </dl>`}
    ${tree.count[row] > 1 && html`<p><button type="button" onClick=${() => view.unfold(row)}>Unfold ×${tree.count[row]}</button></p>`}
    ${onOpen && row > 0 && html`<p><button type="button" class="quiet" onClick=${() => onOpen(row)}>Show this part alone</button></p>`}
  </section>`;
}

/**
 * @param {import("./TreeTable.js").View} view
 * @param {number} row
 * @returns {[string, string][]}
 */
function facts({ tree }, row) {
  const node = tree.nodes[row];
  const times = tree.times[row];
  const known = Number.isFinite(node.energy_j ?? NaN);
  /** @type {[string, string][]} */
  const list = [
    ["of the total", percent(tree.share[row])],
    ["of its parent", row ? percent(tree.parentShare[row]) : "–"],
  ];
  if (known) {
    list.push(["interval", range((node.low_j ?? NaN) * times, (node.high_j ?? NaN) * times)]);
    if (tree.own[row] > 1e-6 * tree.value[row] && tree.own[row] !== tree.value[row]) list.push(["not in its parts", joules(tree.own[row] * times)]);
    if (times > 1) list.push(["each of them", joules(node.energy_j)]);
    list.push(["per compute", perGflop(node.energy_j, node.flops)]);
  }
  list.push(
    ["compute", flops(node.flops * times)],
    ["bytes read", bytes(node.bytes_read * times)],
    ["bytes written", bytes(node.bytes_written * times)],
    ["parameters", count(node.params)],
    ["inputs", shapes(node.inputs)],
    ["outputs", shapes(node.outputs)],
    ["number format", node.dtype || "–"],
  );
  if (tree.call[row] > 1) list.push(["call", integer(tree.call[row])]);
  return list;
}
