// Two or more runs side by side: what differs, by how much, and why.

import { html, useEffect, useMemo, useState } from "../vendor/preact.js";
import { Busy } from "../components/Busy.js";
import { Check, Choice, Entry, Segments, Units } from "../components/Controls.js";
import { ComparisonTable } from "../components/ComparisonTable.js";
import { ExportMenu } from "../components/ExportMenu.js";
import { LinkedIcicles } from "../components/LinkedIcicles.js";
import { ModelCombobox } from "../components/ModelCombobox.js";
import { useDark } from "../components/Page.js";
import { Problem } from "../components/Problem.js";
import { RunForm } from "../components/RunForm.js";
import { Side } from "../components/Side.js";
import { useAnswer } from "../lib/answer.js";
import { apiUrl, get } from "../lib/api.js";
import { alignment, changedSubjects, comparisonCells, mergedRows, sides, verdict } from "../lib/comparison.js";
import { PER, unitWord } from "../lib/board.js";
import { change, interval, joules } from "../lib/format.js";
import { linkedSvg } from "../lib/picture.js";
import { useMachines } from "../lib/machines.js";
import { fieldLabel, inWords } from "../lib/parameters.js";
import { CHOICES, isServing, readRun, runChanges, runOptions } from "../lib/run.js";
import { choice, flag, list, text } from "../lib/state.js";
import { commandLine, exploreLink, parseSubject, QUANTIZED, treeAddress, writeSubject } from "../lib/subjects.js";
import { loadTree } from "../lib/tree.js";

export const title = "Compare";

const FIRST = ["bert-base-uncased", "distilbert-base-uncased"];
const MOST = 6;

/** @param {{query: any, setQuery: any}} props */
export default function ComparePage({ query, setQuery }) {
  const run = readRun(query);
  const subjects = list(query, "subject").length ? list(query, "subject") : usual(query);
  const serving = isServing(run);
  const usualPer = serving ? "token" : "run";
  const per = choice(query, "per", [usualPer, ...PER]);
  const all = flag(query, "all");
  const path = text(query, "path");
  const enough = subjects.length > 1;
  const params = { subject: subjects, ...run, per };
  const answer = useAnswer(enough ? "/compare" : null, params);
  const document = enough ? answer.document : null;
  const comparisons = document?.comparisons ?? [];
  const fits = comparisons.length === subjects.length - 1;
  const by = /** @type {"path" | "role"} */ (choice(query, "by", [alignment(comparisons), "path", "role"]));
  const rows = useMemo(() => mergedRows(comparisons, by), [document, by]);
  const shown = all ? rows : rows.filter((row) => row.isDifferent);
  const names = useMemo(() => told(comparisons), [document]);
  const trees = useTrees(subjects, run);
  const dark = useDark();
  const drawn = subjects.map((subject, index) => ({ name: names[index] ?? subject, tree: trees[index]?.tree ?? null, factor: units(trees[index]?.tree, fits ? sides(comparisons)[index] : null), href: exploreLink(parseSubject(subject), runWithoutUsual(run)) }));
  const act = (/** @type {any} */ action) => setQuery({ subject: changedSubjects(subjects, action), path: null });
  return html`<div class="page">
    <header class="page-head">
      <div><h1>Compare</h1><div class="lede" role="status">
        ${comparisons.length
          ? comparisons.map((/** @type {any} */ each, /** @type {number} */ index) => {
              const { takes, than } = verdict(each, { joules, change });
              return html`<p><strong>${names[index + 1]}</strong> ${takes} <strong>${names[0]}</strong>${than}.</p>`;
            })
          : "What differs between models, sizes and settings, and why."}
      </div><p class="soft where">${sources(comparisons)}</p></div>
      <${ExportMenu}
        name="compare" csv=${() => comparisonCells(shown, names)} json=${() => document} api=${() => apiUrl("/compare", params)}
        svg=${() => linkedSvg(`Energy per ${unitWord(per, serving)}`, drawn.filter(({ tree }) => tree), { dark })}
        cli=${() => commandLine("compare", subjects, { ...runOptions(run), per: per === usualPer ? "" : per, by: text(query, "by"), all })}
      />
    </header>
    <ul class="subjects" aria-label="Subjects">
      ${subjects.map((subject, index) => html`<${Card}
        key=${`${index} ${subject}`} text=${subject} index=${index} side=${fits ? sides(comparisons)[index] : null} run=${run} act=${act} removable=${subjects.length > 1}
      />`)}
      ${subjects.length < MOST && html`<li class="panel subject add"><${Adding} run=${run} last=${subjects.at(-1) ?? FIRST[0]} act=${act} /></li>`}
    </ul>
    <div class="with-side">
      <${Side}>
        <fieldset class="group"><legend>Show</legend>
          <${Units} per=${per} usual=${usualPer} serving=${serving} setQuery=${setQuery} />
          <${Segments} label="Align by" value=${by} options=${[["path", "path"], ["role", "role"]]} onChange=${(/** @type {string} */ value) => setQuery({ by: value })} />
          <${Check} label="only differences" checked=${!all} onChange=${(/** @type {boolean} */ on) => setQuery({ all: on ? null : 1 })} />
          <button type="button" disabled=${subjects.length < 2} onClick=${() => act({ type: "base", index: 1 })}>Swap the first two</button>
        </fieldset>
        <${RunForm} run=${run} resolved=${trees[0]?.tree?.document.spec} onRun=${(/** @type {any} */ next, /** @type {any} */ how) => setQuery(runChanges(next), how)} />
        <p class="hint">The run holds for all that do not say otherwise.</p>
      </${Side}>
      <section class="main-column" aria-busy=${answer.busy}>
        ${!enough && html`<p class="panel">Add a second model, size or setting to compare with.</p>`}
        ${answer.error && html`<${Problem} error=${answer.error} retry=${answer.retry} />`}
        ${answer.busy && html`<${Busy} inline=${!!document} label="Comparing" />`}
        ${document && html`<div class="panel"><h2>The same scale</h2>
          <p class="hint">As many pixels per joule in each; equal layers are folded. Point at a part to see it in all, click to pin it.</p>
          <${LinkedIcicles}
            path=${path} onPath=${(/** @type {string} */ next) => setQuery({ path: next }, { replace: true })}
            subjects=${drawn}
          />
          ${trees.includes(null) && html`<${Busy} inline label="Predicting the trees" />`}
          ${trees.map((each) => each?.error && html`<${Problem} error=${each.error} />`)}
        </div>
        <div class="panel">
          <h2>${by === "role" ? "By role" : "By path"} <span class="hint">${all ? "all parts" : `${shown.length} of ${rows.length} parts differ`}</span></h2>
          ${shown.length
            ? html`<${ComparisonTable} rows=${shown} names=${names} comparisons=${comparisons} by=${by} path=${path} />`
            : html`<p>No part differs.</p>`}
        </div>`}
      </section>
    </div>
  </div>`;
}

/**
 * What is compared at first: the subject of the page one comes from, with another.
 * @param {import("../lib/state.js").Query} query
 */
function usual(query) {
  const [upload, model] = [text(query, "upload"), text(query, "model")];
  if (upload) return [`upload:${upload}`, model || /** @type {string} */ (FIRST[0])];
  if (!model || model === FIRST[0]) return FIRST;
  return [model, isServing(readRun(query)) ? (model === "qwen3-8b" ? "llama-3.1-8b" : "qwen3-8b") : /** @type {string} */ (FIRST[0])];
}

/** @param {Record<string, string>} run */
const runWithoutUsual = (run) => /** @type {any} */ (Object.fromEntries(Object.entries(runChanges(run)).filter(([, value]) => value !== null)));

/**
 * Short names of all sides: the run is told where names are the same.
 * @param {any[]} comparisons
 * @returns {string[]}
 */
function told(comparisons) {
  const all = sides(comparisons);
  return all.map((side) => {
    const same = all.filter((other) => other.name === side.name);
    if (same.length < 2) return side.name;
    const others = new Set(same.filter((other) => other !== side).flatMap((other) => other.run.split(" · ")));
    const own = side.run.split(" · ").filter((word) => !others.has(word));
    return own.length ? `${side.name}, ${own.join(", ")}` : side.name;
  });
}

/** @param {any[]} comparisons */
function sources(comparisons) {
  return [...new Set(sides(comparisons).map((side) => inWords(side.source)))].join("; ");
}

/**
 * Sequences or tokens of a run: what its energies are divided by.
 * @param {any} tree
 * @param {any} side of the comparison, in the unit that was asked for
 */
function units(tree, side) {
  return tree && side?.energy_j ? tree.value[0] / side.energy_j : 1;
}

/**
 * @param {readonly string[]} subjects
 * @param {any} run
 * @returns {({tree: any, error: any} | null)[]}
 */
function useTrees(subjects, run) {
  const addresses = subjects.map((subject) => {
    const { path, params } = treeAddress(parseSubject(subject), run);
    return apiUrl(path, params);
  });
  const [found, setFound] = useState(/** @type {Record<string, {tree: any, error: any}>} */ ({}));
  useEffect(() => {
    const stop = new AbortController();
    const timer = setTimeout(() => {
      for (const address of addresses) {
        if (found[address]?.tree) continue;
        get(address, {}, { signal: stop.signal }).then(
          (document) => setFound((old) => ({ ...old, [address]: { tree: loadTree(document), error: null } })),
          (error) => !stop.signal.aborted && setFound((old) => ({ ...old, [address]: { tree: null, error } })),
        );
      }
    }, 80);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [addresses.join("\n")]);
  return addresses.map((address) => found[address] ?? null);
}

/** @param {{text: string, index: number, side: any, run: any, act: any, removable: boolean}} props */
function Card({ text: subject, index, side, run, act, removable }) {
  const [editing, setEditing] = useState(false);
  const name = side?.name ?? subject;
  return html`<li class="panel subject">
    <div class="subject-head">
      <a href=${exploreLink(parseSubject(subject), runWithoutUsual(run))}>${name}</a>
      ${index === 0 && html`<span class="badge">base</span>`}
    </div>
    <p class="subject-energy">${side ? html`<strong>${joules(side.energy_j)}</strong> <span class="hint">${interval(side.energy_j, side.low_j, side.high_j)}</span>` : " "}</p>
    <p class="hint">${side?.run ?? ""}</p>
    <p class="actions">
      <button type="button" class="quiet" aria-expanded=${editing} onClick=${() => setEditing(!editing)}>Change<span class="visually-hidden"> ${name}</span></button>
      ${index > 0 && html`<button type="button" class="quiet" onClick=${() => act({ type: "base", index })}>Make base<span class="visually-hidden">: ${name}</span></button>`}
      ${removable && html`<button type="button" class="quiet" onClick=${() => act({ type: "remove", index })}>Remove<span class="visually-hidden"> ${name}</span></button>`}
    </p>
    ${editing && html`<${Editor} text=${subject} run=${run} done=${(/** @type {string} */ next) => (setEditing(false), next !== subject && act({ type: "replace", index, text: next }))} word="Apply" />`}
  </li>`;
}

/** @param {{run: any, last: string, act: any}} props */
function Adding({ run, last, act }) {
  const [open, setOpen] = useState(false);
  if (!open) return html`<button type="button" class="add-button" onClick=${() => setOpen(true)}>+ Add to compare</button>`;
  return html`<${Editor} text=${last} run=${run} word="Add" done=${(/** @type {string} */ next) => (setOpen(false), act({ type: "add", text: next }))} cancel=${() => setOpen(false)} />`;
}

/** @param {{text: string, run: any, word: string, done: (text: string) => void, cancel?: () => void}} props */
function Editor({ text: subject, run, word, done, cancel }) {
  const first = parseSubject(subject);
  const [model, setModel] = useState(first.model);
  const [own, setOwn] = useState(first.run);
  const machines = useMachines();
  const serving = isServing(run);
  const set = (/** @type {string} */ name) => (/** @type {string} */ value) => setOwn({ ...own, [name]: value });
  const choose = (/** @type {string} */ name, /** @type {readonly string[]} */ values) => html`<${Choice} key=${name} label=${fieldLabel(name)} value=${String(own[name] ?? "")} options=${[["", run[name] ? `as all (${run[name]})` : "as all"], ...values.map((each) => [each, each])]} onChange=${set(name)} />`;
  const size = (/** @type {string} */ name, /** @type {string} */ label) => html`<${Entry} label=${label} type="number" min=${1} value=${own[name] ?? ""} placeholder=${run[name]} onChange=${set(name)} />`;
  return html`<form class="editor" onSubmit=${(/** @type {Event} */ event) => (event.preventDefault(), done(writeSubject(model, own, run)))}>
    <${ModelCombobox} value=${model} onChange=${setModel} kind=${serving ? "decoder" : ""} />
    <${Choice} label="Hardware" value=${String(own.on ?? "")} options=${[["", "as all"], ...machines.filter(({ serves }) => serves || !serving).map(({ name, words }) => [name, words])]} onChange=${set("on")} />
    <div class="field-row">
      ${serving
        ? html`${size("batch_size", "Streams at once")}${size("prompt_len", "Prompt")}${size("output_len", "Output")}${choose("quantization", QUANTIZED)}`
        : html`${size("batch_size", "Batch size")}${size("seq_len", "Length")}${Object.entries(CHOICES).map(([name, values]) => choose(name, values))}`}
    </div>
    <p class="actions"><button type="submit" class="primary">${word}</button>${cancel && html`<button type="button" class="quiet" onClick=${cancel}>Cancel</button>`}</p>
  </form>`;
}
