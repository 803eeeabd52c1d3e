// A ledger of a running program: power over time, and its energy by module, op, phase
// and device.

import { html, useMemo, useRef } from "../vendor/preact.js";
import { Notes, Segments, SortHead } from "./Controls.js";
import { ExportMenu } from "./ExportMenu.js";
import { PowerTimeline } from "./PowerTimeline.js";
import { integer, interval, joules, percent, seconds, watts } from "../lib/format.js";
import { choice, flag, number, text } from "../lib/state.js";

const VIEWS = [["by_module", "module"], ["by_op", "op"], ["operations", "operation"], ["by_phase", "phase"], ["by_device", "device"]];
const SORTS = ["order", "name", "energy_j", "time_s", "power_w", "count"];
const MOST_ROWS = 500;

/**
 * @param {{ledger: any, query: any, setQuery: any, name: string, document?: any, api?: string}} props
 *   ledger: irene.ledger/1; the state is in the address: ledger_by, ledger_sort, from, to
 */
export function LedgerView({ ledger, query, setQuery, name, document, api }) {
  const by = choice(query, "ledger_by", VIEWS.map(([field]) => /** @type {string} */ (field)));
  const range = rangeOf(query);
  const svg = useRef(/** @type {SVGElement | null} */ (null));
  const rows = ledger[by] ?? [];
  const setRange = (/** @type {[number, number] | null} */ next) =>
    setQuery({ from: next ? next[0].toFixed(6) : null, to: next ? next[1].toFixed(6) : null }, { replace: true });
  return html`<div class="ledger">
    <div class="panel">
      <div class="card-head"><h2>Power over time</h2>
        <${ExportMenu}
          name=${`${name}-ledger`} svg=${ledger.timeline ? () => svg.current : undefined} csv=${() => cells(ledger, rows)}
          json=${() => document ?? ledger} api=${api ? () => api : undefined}
        /></div>
      <${Figures} ledger=${ledger} />
      ${ledger.timeline
        ? html`<${PowerTimeline} timeline=${ledger.timeline} range=${range} onRange=${setRange} svgRef=${svg} />`
        : html`<p class="hint">This ledger was saved without its power over time: write it anew with <code>irene account</code>.</p>`}
    </div>
    <div class="panel">
      <div class="card-head"><h2>Where it went</h2>
        <${Segments} label="By" value=${by} options=${VIEWS} onChange=${(/** @type {string} */ value) => setQuery({ ledger_by: value === "by_module" ? null : value, ledger_sort: null, ledger_down: null })} /></div>
      <${Rows} rows=${rows} rest=${ledger.rest ?? []} by=${by} query=${query} setQuery=${setQuery} />
      <${Notes} notes=${ledger.notes} />
    </div>
    <div class="panel"><h2>Channels</h2><${Channels} channels=${ledger.channels ?? []} /></div>
  </div>`;
}

/**
 * @param {any} query
 * @returns {[number, number] | null}
 */
function rangeOf(query) {
  const [from, to] = [number(query, "from", NaN), number(query, "to", NaN)];
  return from < to && from >= 0 ? [from, to] : null;
}

/** @param {{ledger: any}} props */
function Figures({ ledger }) {
  const share = ledger.measured_j > 0 ? ledger.attributed_j / ledger.measured_j : 0;
  return html`<dl class="figures">
    <div><dt>energy</dt><dd>${joules(ledger.energy_j)} <span class="hint">${interval(ledger.energy_j, ledger.low_j, ledger.high_j)}, ${ledger.source}</span></dd></div>
    <div><dt>time</dt><dd>${seconds(ledger.window_s)}</dd></div>
    <div><dt>mean power</dt><dd>${watts(ledger.energy_j / (ledger.window_s || NaN))}</dd></div>
    <div><dt>charged to ops</dt><dd>${percent(share)}</dd></div>
    <div><dt>ops</dt><dd>${integer(ledger.events)}${ledger.steps?.length ? html` <span class="hint">in ${integer(ledger.steps.length)} steps</span>` : ""}</dd></div>
  </dl>`;
}

/** @param {{rows: any[], rest: any[], by: string, query: any, setQuery: any}} props */
function Rows({ rows, rest, by, query, setQuery }) {
  const sort = choice(query, "ledger_sort", SORTS);
  const down = flag(query, "ledger_down");
  const words = text(query, "ledger_search").toLowerCase();
  const onSort = (/** @type {string} */ name, /** @type {boolean} */ isDown) => setQuery({ ledger_sort: name, ledger_down: isDown ? 1 : null });
  const shown = useMemo(() => {
    const found = rows.filter((row) => !words || nameOf(row).toLowerCase().includes(words));
    if (sort === "order") return found;
    const sign = down ? -1 : 1;
    return [...found].sort((a, b) => (sort === "name" ? sign * nameOf(a).localeCompare(nameOf(b)) : sign * ((a[sort] ?? -1) - (b[sort] ?? -1))));
  }, [rows, sort, down, words]);
  const most = shown.reduce((all, row) => Math.max(all, row.energy_j ?? 0), 0);
  const head = { by: sort, down, onSort };
  const isModule = by === "by_module";
  return html`<div class="field"><label for="ledger-search">Search</label>
    <input id="ledger-search" type="search" value=${words} onInput=${(/** @type {any} */ event) => setQuery({ ledger_search: event.target.value }, { replace: true })} /></div>
  <div class="table-scroll tall" tabindex="0" role="region" aria-label=${`Energy by ${by.replace("by_", "")}`}>
    <table class="data">
      <thead><tr>
        <${SortHead} ...${head} name="name">${VIEWS.find(([field]) => field === by)?.[1]}</${SortHead}>
        <${SortHead} ...${head} name="energy_j" number first="down">Energy</${SortHead}>
        <th scope="col" class="number">Interval</th><th scope="col" class="number">Share</th>
        <${SortHead} ...${head} name="power_w" number first="down">Power</${SortHead}>
        <${SortHead} ...${head} name="time_s" number first="down">Time</${SortHead}>
        <${SortHead} ...${head} name="count" number first="down">Calls</${SortHead}>
        ${isModule && html`<th scope="col" class="number">Forward</th><th scope="col" class="number">Backward</th>`}
      </tr></thead>
      <tbody>
        ${shown.slice(0, MOST_ROWS).map((row) => html`<tr key=${nameOf(row)}>
          <th scope="row" class=${isModule && sort === "order" ? `indent indent-${Math.min(row.depth ?? 0, 8)}` : ""}>${nameOf(row) || "(program)"}
            ${row.resolved === false && html` <abbr class="hint" title=${`too short for the sensor; its group ${row.group ?? ""} took ${joules(row.group_energy_j)}`}>unresolved</abbr>`}</th>
          <td class="number energy-cell"><span class="cell-bar" aria-hidden="true" style=${{ "--part": most ? (row.energy_j ?? 0) / most : 0 }}></span><span class="cell-text">${joules(row.energy_j)}</span></td>
          <td class="number hint">${interval(row.energy_j, row.low_j, row.high_j)}</td>
          <td class="number">${percent(row.share)}</td>
          <td class="number">${watts(row.power_w)}</td><td class="number">${seconds(row.time_s)}</td><td class="number">${integer(row.count)}</td>
          ${isModule && html`<td class="number">${joules(row.forward_j)}</td><td class="number">${joules(row.backward_j)}</td>`}
        </tr>`)}
        ${rest.filter((row) => row.energy_j || row.time_s).map((row) => html`<tr key=${`(${row.name})`} class="rest">
          <th scope="row">(${row.name})</th><td class="number">${joules(row.energy_j)}</td><td></td><td class="number">${percent(row.share)}</td><td></td><td class="number">${seconds(row.time_s)}</td><td></td>
          ${isModule && html`<td></td><td></td>`}</tr>`)}
      </tbody>
    </table>
  </div>
  ${shown.length > MOST_ROWS && html`<p class="hint">${integer(shown.length - MOST_ROWS)} more rows are in the CSV.</p>`}`;
}

/** @param {any} row */
const nameOf = (row) => String(row.path ?? row.name ?? "");

/** @param {{channels: any[]}} props */
function Channels({ channels }) {
  return html`<div class="table-scroll" tabindex="0" role="region" aria-label="Power channels"><table class="data">
    <thead><tr><th scope="col">Channel</th><th scope="col">Device</th><th scope="col">Covers</th><th scope="col">Source</th>
      <th scope="col" class="number">Measured</th><th scope="col" class="number">To ops</th><th scope="col" class="number">Idle</th><th scope="col" class="number">Others</th><th scope="col" class="number">Unattributed</th></tr></thead>
    <tbody>${channels.map((each) => html`<tr key=${each.name}><th scope="row">${each.name}</th><td>${each.device}</td><td>${each.covers}</td><td>${each.source}${each.relative_error ? html` <span class="hint">± ${percent(each.relative_error)}</span>` : ""}</td>
      ${["measured_j", "attributed_j", "idle_j", "other_j", "unattributed_j"].map((field) => html`<td class="number">${joules(each[field])}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

/**
 * @param {any} ledger
 * @param {any[]} rows
 */
function cells(ledger, rows) {
  const columns = ["energy_j", "low_j", "high_j", "source", "power_w", "share", "time_s", "count"];
  return [["name", ...columns], ...rows.map((row) => [nameOf(row), ...columns.map((field) => row[field])]), ...(ledger.rest ?? []).map((/** @type {any} */ row) => [`(${row.name})`, ...columns.map((field) => row[field])])];
}
