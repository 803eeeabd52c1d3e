// The three linked views of one tree, with their tools, details and list.

import { html, useSignal } from "../vendor/preact.js";
import { integer } from "../lib/format.js";
import { choice } from "../lib/state.js";
import { visibleRows } from "../lib/rows.js";
import { keyOf } from "../lib/tree.js";
import { Later } from "./Busy.js";
import { ExportMenu } from "./ExportMenu.js";
import { Icicle, Tip } from "./Icicle.js";
import { NodeDetails } from "./NodeDetails.js";
import { NodeList } from "./NodeList.js";
import { useTreeView } from "./TreeState.js";
import { Legend, TreeTable } from "./TreeTable.js";
import { Crumbs, Found, Tools } from "./TreeTools.js";

const OVERVIEW_LEVELS = 5;

/** @typedef {import("./TreeTable.js").View} View */

/**
 * @param {{document: any, query: import("../lib/state.js").Query, setQuery: (changes: any, options?: any) => void,
 *   name: string, api?: () => string, cli?: () => string}} props name: of exported
 *   files
 */
export function TreeViews({ document, query, setQuery, name, api, cli }) {
  const state = useTreeView(document, query, setQuery);
  const { view, root, hovered, top } = state;
  const { tree, minShare, metric, dark } = view;
  const kind = choice(query, "view", ["table", "icicle", "tree"]);
  const pointer = useSignal([0, 0]);
  const by = /** @type {"node" | "class" | "primitive"} */ (choice(query, "by", ["node", "class", "primitive"]));
  const setRoot = (/** @type {number} */ row) => setQuery({ root: row <= 0 ? null : keyOf(tree, row) });
  const options = { root, metric, dark, minShare: Math.max(minShare, 0) };
  const pictures = () => import("../lib/picture.js");
  const picture = async () =>
    kind === "tree" ? (await pictures()).nodeLinkSvg(tree, visibleRows(tree, view.open, view), options) : (await pictures()).icicleSvg(tree, options);
  return html`
    <div class=${kind === "table" ? "explore-main" : "explore-main wide"}>
      <section class="panel view-panel" aria-label="The model, part by part" onPointerMove=${(/** @type {PointerEvent} */ e) => (pointer.value = [e.clientX, e.clientY])}>
        <${Tools} state=${state} kind=${kind} setQuery=${setQuery}>
          <${ExportMenu} name=${name} svg=${picture} csv=${async () => (await pictures()).treeRows(tree, view)} json=${() => document} api=${api} cli=${cli} />
        </${Tools}>
        <${Found} view=${view} top=${top} setQuery=${setQuery} />
        ${root > 0 && kind !== "table" && html`<${Crumbs} tree=${tree} root=${root} setRoot=${setRoot} />`}
        ${kind === "table" && html`
          <${Icicle} view=${view} root=${0} setRoot=${(/** @type {number} */ row) => view.select(row)} height=${20} levels=${OVERVIEW_LEVELS} label="Overview of the model" />
          <${TreeTable} view=${view} />`}
        ${kind === "icicle" && html`<${Icicle} view=${view} root=${root} setRoot=${setRoot} roomy />`}
        ${kind === "tree" && html`<${Later} load=${() => import("./NodeLink.js").then((part) => part.NodeLink)} label="Drawing the tree" view=${view} root=${root} setRoot=${setRoot} />`}
        <${Tip} view=${view} hovered=${hovered} pointer=${pointer} />
      </section>
      <p class="toolbar below-view"><${Legend} view=${view} /><span class="spacer"></span><span class="soft">${integer(tree.nodeCount)} nodes${tree.folded ? `, equal ones folded into ${integer(tree.size)}` : ""}</span></p>
    </div>
    <div class="explore-side">
      <${Details} view=${view} hovered=${hovered} onOpen=${kind === "table" ? undefined : setRoot} />
      <${NodeList} view=${view} by=${by} top=${top} setBy=${(/** @type {string} */ v) => setQuery({ by: v === "node" ? null : v })} />
    </div>`;
}

/** @param {{view: View, hovered: {value: number}, onOpen?: (row: number) => void}} props */
function Details({ view, hovered, onOpen }) {
  const over = hovered.value < view.tree.size ? hovered.value : -1;
  // What is under the pointer wins; what is pinned stays when the pointer leaves.
  const row = over >= 0 ? over : Math.max(view.selected, 0);
  return html`<${NodeDetails} view=${view} row=${row} pinned=${view.selected === row && row >= 0 && view.selected >= 0} hovering=${over >= 0} onOpen=${onOpen} />`;
}
