// The parts sorted by energy, as in Figure 6 of the IrEne paper: node by node, by module
// class, or by primitive.

import { html, useMemo, useState } from "../vendor/preact.js";
import { ramp } from "../lib/colour.js";
import { bytes, flops, integer, joules, percent, plural } from "../lib/format.js";
import { aggregate } from "../lib/questions.js";
import { displayPath, hasChildren } from "../lib/tree.js";
import { shareOf } from "./TreeTable.js";

const FIRST = 14;
const MORE = 200;
const ROOM = 23; // letters

/**
 * @param {{view: import("./TreeTable.js").View, by: "node" | "class" | "primitive", setBy: (by: string) => void,
 *   top: {rows: number[], leaves: number, share: number} | null}} props
 */
export function NodeList({ view, by, setBy, top }) {
  const { tree, hits, minShare, dark } = view;
  const [shown, setShown] = useState(FIRST);
  const groups = useMemo(() => {
    const all = aggregate(tree, by, { minShare: Math.max(minShare, 0) });
    const matching = hits ? all.filter((group) => group.rows.some((row) => hits.hits[row])) : all;
    if (!top) return matching;
    const among = new Set(top.rows);
    return by === "node" ? matching.filter((group) => among.has(/** @type {number} */ (group.rows[0]))) : untilPart(matching);
  }, [tree, by, minShare, hits, top]);
  const format = tree.basis === "energy" ? joules : tree.basis === "flops" ? flops : bytes;
  return html`<section class="panel" aria-label="Where it goes, largest first">
    <h2>Where it goes</h2>
    <div class="list-tools">
      <div class="segments" role="group" aria-label="Group by">
        ${[["node", "Node"], ["class", "Module class"], ["primitive", "Primitive"]].map(
          ([name, words]) => html`<button type="button" aria-pressed=${by === name} onClick=${() => setBy(/** @type {string} */ (name))}>${words}</button>`,
        )}
      </div>
    </div>
    <ol class="node-list">
      ${groups.slice(0, shown).map((group) => {
        const row = /** @type {number} */ (group.rows[0]);
        const { at } = shareOf(view, row);
        const colour = ramp(Math.max(by === "node" ? at : Math.sqrt(group.share), 0.25), dark);
        const single = by === "node";
        return html`<li key=${`${by}:${single ? row : group.name}`}><button
          type="button" aria-pressed=${single && view.selected === row}
          title=${single ? tree.path[row] : `${plural(group.nodes, "node")}: show them`}
          onClick=${() => (single ? view.select(view.selected === row ? -1 : row) : view.select(largest(tree, group.rows)))}
          onPointerEnter=${() => single && view.hover(row)} onPointerLeave=${() => view.hover(-1)}
        >
          <span class="name">${single ? listName(tree, row) : group.name} ${group.nodes > 1 && html`<span class="soft">×${integer(group.nodes)}</span>`}</span>
          <span class="num">${percent(group.share)} <span class="soft">${format(group.value)}</span></span>
          <span class="track" aria-hidden="true"><span class="share-fill" style=${{ width: `${Math.min(group.share, 1) * 100}%`, background: colour }}></span></span>
        </button></li>`;
      })}
    </ol>
    ${groups.length === 0 && html`<p class="soft">Nothing fits the search and the threshold.</p>`}
    ${groups.length > shown && html`<p><button type="button" class="quiet" onClick=${() => setShown(shown + MORE)}>${integer(groups.length - shown)} more</button></p>`}
    ${by === "class" && html`<p class="soft">Classes contain each other, so their shares overlap.</p>`}
  </section>`;
}

/** @param {import("../lib/questions.js").Group[]} groups the largest first */
function untilPart(groups) {
  let share = 0;
  return groups.filter((group) => {
    const wanted = share < 0.9;
    share += group.share;
    return wanted;
  });
}

/**
 * @param {import("../lib/tree.js").Tree} tree
 * @param {number[]} rows
 */
function largest(tree, rows) {
  return rows.reduce((best, row) => ((tree.share[row] || 0) > (tree.share[best] || 0) ? row : best));
}

/**
 * The end of a path says most; a leaf's op says what it is.
 * @param {import("../lib/tree.js").Tree} tree
 * @param {number} row
 */
function listName(tree, row) {
  const whole = displayPath(tree, row);
  const parts = whole.split(".");
  while (parts.length > 1 && parts.join(".").length > ROOM) parts.shift();
  const end = parts.join(".");
  const { op } = tree.nodes[row];
  return hasChildren(tree, row) || whole.endsWith(op) || end.length + op.length > ROOM ? end : `${end} · ${op}`;
}
