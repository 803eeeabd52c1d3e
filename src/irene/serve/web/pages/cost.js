// Kilowatt-hours, money and CO2e of answering requests with a model.

import { html, useEffect, useState } from "../vendor/preact.js";
import { AnswerPage } from "../components/AnswerPage.js";
import { Bars } from "../components/Chart.js";
import { Choice, Entry, Notes, Slider } from "../components/Controls.js";
import { RunForm } from "../components/RunForm.js";
import { useAnswer, useList } from "../lib/answer.js";
import { apiUrl } from "../lib/api.js";
import { amountPosition, costLines, roundAmount } from "../lib/costing.js";
import { barsSvg } from "../lib/picture.js";
import { inWords } from "../lib/parameters.js";
import { digits, integer, interval, si } from "../lib/format.js";
import { calledName } from "../lib/recent.js";
import { FIRST_MODEL, readRun, runChanges, runOptions } from "../lib/run.js";
import { flag, number, text, writeQuery } from "../lib/state.js";
import { commandLine } from "../lib/subjects.js";

export const title = "Cost and carbon";

const PER_DAY = 250_000;
const CURRENCIES = ["USD", "EUR", "GBP", "CHF", "INR", "CNY", "JPY"];

/** @param {{query: any, setQuery: any}} props */
export default function CostPage({ query, setQuery }) {
  const run = readRun(query);
  const model = text(query, "model", FIRST_MODEL);
  const [moved, setMoved] = useState(/** @type {Record<string, number>} */ ({}));
  const perDay = moved.per_day ?? number(query, "per_day", PER_DAY);
  const price = moved.price ?? (text(query, "price") === "" ? 0.25 : number(query, "price", 0.25));
  const pue = moved.pue ?? Math.max(number(query, "pue", 1.2), 1);
  const region = text(query, "region", "WORLD");
  const own = text(query, "intensity");
  const upload = text(query, "upload");
  const isFile = Boolean(upload) && !flag(query, "anew");
  const currency = text(query, "currency", "USD");
  const params = { model: isFile ? `upload:${upload}` : model, ...(isFile ? {} : run), currency, per_day: number(query, "per_day", PER_DAY), price: number(query, "price", 0.25), pue: number(query, "pue", 1.2), region, intensity: own };
  const answer = useAnswer("/cost", params);
  const { document } = answer;
  const regions = useList("/regions", (answer) => answer.regions);
  const intensity = own !== "" ? Number(own) : (regions.find((each) => each.code === region)?.gco2e_per_kwh ?? document?.region.gco2e_per_kwh ?? 0);
  const lines = document ? costLines(document.per_query, { perDay, price, intensity, pue }) : [];
  const slide = (/** @type {string} */ name) => (/** @type {number} */ value) => setMoved({ ...moved, [name]: value });
  const settle = (/** @type {string} */ name) => (/** @type {number} */ value) => {
    setMoved({ ...moved, [name]: value });
    setQuery({ [name]: value });
  };
  useEffect(() => setMoved({}), [text(query, "per_day"), text(query, "price"), text(query, "pue")]);
  const take = {
    name: `cost-${model}`, csv: () => cells(lines), json: () => document, api: () => apiUrl("/cost", params),
    svg: regions.length && lines.length ? () => barsSvg(`${model}: CO₂e a year by region`, places(regions, lines.at(-1)).map(({ name, kg }) => ({ label: name, value: kg, text: kilograms(kg) }))) : undefined,
    cli: () => commandLine("cost", [model], { ...runOptions(run), per_day: params.per_day, price: params.price, currency: currency === "USD" ? "" : currency, pue: params.pue, region: own ? "" : region, intensity: own }),
  };
  const side = html`
    <${RunForm} model=${model} run=${run} resolved=${document?.spec} onModel=${(/** @type {string} */ name) => setQuery({ model: name, upload: null })} onRun=${(/** @type {any} */ next, /** @type {any} */ how) => setQuery({ ...runChanges(next), ...(isFile ? { anew: 1 } : {}) }, how)} />
    <fieldset class="group"><legend>The service</legend>
      <${Slider}
        label="Requests per day" value=${amountPosition(perDay)} min=${6} max=${30} text=${integer(perDay)}
        onInput=${(/** @type {number} */ at) => slide("per_day")(roundAmount(at))} onChange=${(/** @type {number} */ at) => settle("per_day")(roundAmount(at))}
      />
      <${Slider}
        label="Price of a kWh" value=${price} min=${0} max=${1} step=${0.01} text=${price.toFixed(2)} hint=${html`in <select aria-label="Currency" value=${currency} onChange=${(/** @type {any} */ e) => setQuery({ currency: e.target.value === "USD" ? null : e.target.value })}>${[...new Set([...CURRENCIES, currency])].map((each) => html`<option value=${each} selected=${each === currency}>${each}</option>`)}</select>`}
        onInput=${slide("price")} onChange=${settle("price")}
      />
      <${Slider}
        label="PUE" value=${pue} min=${1} max=${2.5} step=${0.01} text=${pue.toFixed(2)}
        hint="energy of the building by that of its machines" onInput=${slide("pue")} onChange=${settle("pue")}
      />
      <${Choice}
        label="Electricity of" value=${region} onChange=${(/** @type {string} */ code) => setQuery({ region: code === "WORLD" ? null : code, intensity: null })}
        options=${regions.length ? regions.map((each) => [each.code, `${each.name}, ${digits(each.gco2e_per_kwh)} g CO₂e per kWh`]) : [[region, document?.region.name ?? region]]}
      />
      <${Entry}
        label="or g CO₂e per kWh" type="number" min=${0} step="any" value=${own} placeholder=${intensity ? digits(intensity) : ""}
        onChange=${(/** @type {string} */ value) => setQuery({ intensity: value })}
      />
    </fieldset>`;
  return html`<${AnswerPage} name="Cost and carbon" lede=${headline(document, lines, currency)} on=${isFile ? "" : run.on} take=${take} side=${side} answer=${answer} busy="Predicting">
    ${document && html`<${Figures} line=${lines.at(-1)} currency=${currency} />
      <div class="panel"><${Table} lines=${lines} currency=${currency} /></div>
      <${Regions} regions=${regions} line=${lines.at(-1)} intensity=${intensity} chosen=${own ? "" : region} query=${query} />
      <div class="panel stack">
        <p>Energy: ${inWords(document.energy_source)}. ${document.run}.
          Intensity: ${own ? "as you gave it" : html`${document.region.name}, ${document.region.year}, ${document.region.source}`}.</p>
        <${Notes} notes=${document.notes} />
        <p><a href=${`/${writeQuery({ model, ...runChanges(run) })}`}>Where the energy goes</a> ·${" "}
          <a href=${`/suggest${writeQuery({ model, ...runChanges(run) })}`}>What would save most</a></p>
      </div>`}
  </${AnswerPage}>`;
}

/**
 * @param {any} document
 * @param {any[]} lines
 * @param {string} currency
 */
function headline(document, lines, currency) {
  const year = lines.at(-1);
  if (!document || !year) return "What it takes to answer requests with a model, for a year.";
  return html`${calledName(document.model)}: <strong>${kwh(year.kwh.value)}</strong>,
    ${" "}<strong>${kilograms(year.kg.value)}</strong> CO₂e${year.money && html` and <strong>${money(year.money.value)} ${currency}</strong>`} a year
    for ${integer(year.requests / 365.25)} requests a day.`;
}

/** @param {number} value kWh */
const kwh = (value) => si(value * 1000, "Wh");
/** @param {number} value kg */
const kilograms = (value) => (value >= 1000 ? `${digits(value / 1000)} t` : si(value * 1000, "g"));
/** @param {number} value in the user's currency */
const money = (value) => (value >= 0.01 || value === 0 ? value.toLocaleString("en-US", { maximumFractionDigits: value < 100 ? 2 : 0 }) : "< 0.01");

/** @param {{line: any, currency: string}} props */
function Figures({ line, currency }) {
  const spread = interval(line.kwh.value, line.kwh.low, line.kwh.high);
  return html`<dl class="figures big">
    <div><dt>electricity a year</dt><dd>${kwh(line.kwh.value)} <span class="hint">${spread}</span></dd></div>
    <div><dt>CO₂e a year</dt><dd>${kilograms(line.kg.value)} <span class="hint">${spread}</span></dd></div>
    ${line.money && html`<div><dt>money a year</dt><dd>${money(line.money.value)} ${currency} <span class="hint">${spread}</span></dd></div>`}
  </dl>`;
}

/** @param {{lines: any[], currency: string}} props */
function Table({ lines, currency }) {
  return html`<div class="table-scroll" tabindex="0" role="region" aria-label="Costs">
    <table class="data">
      <caption class="visually-hidden">Costs of requests</caption>
      <thead><tr><th scope="col">For</th><th scope="col" class="number">Requests</th><th scope="col" class="number">Electricity</th>
        <th scope="col" class="number">CO₂e</th><th scope="col" class="number">${currency}</th></tr></thead>
      <tbody>${lines.map((line) => html`<tr key=${line.name}>
        <th scope="row">${line.name}</th><td class="number">${integer(line.requests)}</td>
        <td class="number">${kwh(line.kwh.value)} <span class="hint">${kwh(line.kwh.low)} – ${kwh(line.kwh.high)}</span></td>
        <td class="number">${kilograms(line.kg.value)}</td>
        <td class="number">${line.money ? money(line.money.value) : "–"}</td>
      </tr>`)}</tbody>
    </table>
  </div>`;
}

/**
 * A line's CO2e everywhere, the least first.
 * @param {any[]} regions
 * @param {any} line
 * @returns {{code: string, name: string, kg: number}[]}
 */
function places(regions, line) {
  return regions
    .map(({ code, name, gco2e_per_kwh }) => ({ code, name, kg: (line.kwh.value * gco2e_per_kwh) / 1000 }))
    .sort((a, b) => a.kg - b.kg);
}

/** @param {{regions: any[], line: any, intensity: number, chosen: string, query: any}} props */
function Regions({ regions, line, intensity, chosen, query }) {
  if (!regions.length || !line) return null;
  const items = places(regions, line).map(({ code, name, kg }) => ({
    key: code,
    label: code === chosen ? html`<strong>${name}</strong>` : name,
    value: kg,
    text: kilograms(kg),
    href: `/cost${writeQuery({ ...query, region: code === "WORLD" ? "" : code, intensity: "" })}`,
  }));
  return html`<div class="panel"><h2>The same year elsewhere</h2>
    <p class="hint">CO₂e with the electricity of other places; here ${digits(intensity)} g per kWh.</p>
    <${Bars} items=${items} label="CO₂e a year by region" />
  </div>`;
}

/** @param {any[]} lines */
function cells(lines) {
  const parts = ["kwh", "kg", "money"];
  const head = ["for", "requests", ...parts.flatMap((name) => [name, `${name}_low`, `${name}_high`])];
  return [head, ...lines.map((line) => [line.name, line.requests, ...parts.flatMap((name) => [line[name]?.value, line[name]?.low, line[name]?.high])])];
}
