// What to change, and what it saves.

import { html, useState } from "../vendor/preact.js";
import { AnswerPage } from "../components/AnswerPage.js";
import { Check, Choice, Notes } from "../components/Controls.js";
import { useModels } from "../components/ModelCombobox.js";
import { RunForm } from "../components/RunForm.js";
import { useAnswer } from "../lib/answer.js";
import { apiUrl } from "../lib/api.js";
import { barsSvg } from "../lib/picture.js";
import { interval, joules, percent } from "../lib/format.js";
import { calledName } from "../lib/recent.js";
import { FIRST_MODEL, isServing, readRun, runChanges, runOptions } from "../lib/run.js";
import { runFields } from "../lib/parameters.js";
import { choice, flag, text, writeQuery } from "../lib/state.js";
import { commandLine, SAID, writeSubject } from "../lib/subjects.js";

export const title = "Suggestions";

const EFFORTS = [["", "anything"], ["setting", "a setting"], ["retraining", "retraining"], ["another model", "another model"]];
const GROUPS = [["setting", "A setting is enough"], ["retraining", "Takes retraining"], ["another model", "Takes another model"], ["", "Other"]];

/** @param {{query: any, setQuery: any}} props */
export default function SuggestPage({ query, setQuery }) {
  const run = readRun(query);
  const model = text(query, "model", FIRST_MODEL);
  const effort = choice(query, "effort", EFFORTS.map(([each]) => /** @type {string} */ (each)));
  const sure = flag(query, "sure");
  const params = { model, ...run };
  const answer = useAnswer("/suggest", params);
  const { document } = answer;
  const all = document?.suggestions ?? [];
  const shown = [...all]
    .filter((each) => (!effort || each.effort === effort) && (!sure || each.is_real))
    .sort((a, b) => Number(b.is_real) - Number(a.is_real) || b.share - a.share);
  const lede = document
    ? html`${calledName(document.model)} takes <strong>${joules(document.per_sequence_j)}</strong> per ${isServing(run) ? "request" : "sequence"}${" "}
        <span class="hint">${interval(document.energy.joules, document.energy.low, document.energy.high)}</span>.${" "}${best(all)}`
    : "What to change about a model or its run, and what it saves.";
  const take = {
    name: `suggest-${model}`, csv: () => cells(shown), json: () => document, api: () => apiUrl("/suggest", params),
    svg: shown.length ? () => barsSvg(`What saves energy: ${model}`, shown.map((each) => ({ label: each.title, value: each.share, text: percent(each.share) }))) : undefined,
    cli: () => commandLine("suggest", [model], runOptions(run)),
  };
  const side = html`
    <${RunForm} model=${model} run=${run} resolved=${document?.spec} onModel=${(/** @type {string} */ name) => setQuery({ model: name })} onRun=${(/** @type {any} */ next, /** @type {any} */ how) => setQuery(runChanges(next), how)} />
    <fieldset class="group"><legend>Show</legend>
      <${Choice} label="What it may take" value=${effort} options=${EFFORTS} onChange=${(/** @type {string} */ value) => setQuery({ effort: value })} />
      <${Check} label="only savings that are sure" checked=${sure} onChange=${(/** @type {boolean} */ on) => setQuery({ sure: on ? 1 : null })} />
    </fieldset>`;
  return html`<${AnswerPage} name="Suggestions" lede=${lede} on=${document?.hardware} take=${take} side=${side} answer=${answer} busy="Trying every rule">
    ${document && !shown.length && html`<p class="panel">Nothing to suggest ${effort || sure ? "with these filters" : "for this run"}.</p>`}
    ${GROUPS.map(([kind, words]) => {
      const own = shown.filter((each) => each.effort === kind || (kind === "" && !GROUPS.some(([known]) => known === each.effort)));
      return own.length > 0 && html`<section class="main-column" key=${kind}><h2>${words}</h2><ol class="suggestions">
        ${own.map((each) => html`<${Suggestion} key=${each.title} each=${each} model=${model} run=${run} />`)}
      </ol></section>`;
    })}
    ${document && html`<p class="hint">Rules that found nothing to save here: ${document.silent.join(", ") || "none"}.
      Savings are per ${isServing(run) ? "request" : "sequence"}; they do not simply add up.</p><${Notes} notes=${document.notes} />`}
  </${AnswerPage}>`;
}

/** @param {any[]} all */
function best(all) {
  const sure = all.filter((each) => each.is_real && each.effort === "setting");
  const top = sure.sort((a, b) => b.share - a.share)[0];
  return top ? html`The best setting saves <strong>${percent(top.share)}</strong>: ${top.title}.` : "No setting alone is sure to save.";
}

/** @param {{each: any, model: string, run: any}} props */
function Suggestion({ each, model, run }) {
  const before = { model, ...run };
  const changes = Object.keys(each.change);
  const isSpec = changes.every((name) => name === "model" || name === "on" || runFields().some((field) => field.name === name));
  const after = { ...before, ...Object.fromEntries(Object.entries(each.change).map(([name, value]) => [name, String(value)])) };
  const fields = Object.entries(each.change);
  const models = useModels();
  const hub = (/** @type {string} */ name) => models.find((known) => known.name === name)?.hub_id ?? name;
  const command = isSpec
    ? commandLine("predict", [after.model], runOptions(without(after, "model")))
    : commandLine("what-if", [model], { ...runOptions(run), set: fields.map(([name, value]) => `${name}=${value}`) });
  const link = isSpec
    ? `/${writeQuery({ model: after.model, ...runChanges(without(after, "model")) })}`
    : `/what-if${writeQuery({ model, ...runChanges(run), set: fields.map(([name, value]) => `${name}=${value}`) })}`;
  return html`<li class="panel suggestion">
    <div class="suggestion-figure">
      <span class="suggestion-share">${percent(each.share)}</span>
      <span class="hint">${joules(each.saving_j)} ± ${joules(each.half_j)}</span>
    </div>
    <div class="suggestion-words">
      <h3>${each.title}</h3>
      <p>${sentence(each.why)}</p>
      <div class="saving-track" aria-hidden="true"><span class=${each.is_real ? "saving" : "saving unsure"} style=${{ width: `${Math.max(Math.min(each.share, 1), 0) * 100}%` }}></span></div>
      <dl class="inline">
        <div><dt>accuracy</dt><dd>${each.accuracy.replace(/^none/, "stays")}</dd></div>
        ${!each.is_real && html`<div><dt>sure</dt><dd>no: the interval holds zero</dd></div>`}
      </dl>
      <div class="apply"><span class="hint">How to apply:</span> <${CopyText} what="code" text=${codeFor(each.change, hub(String(after.model)), isServing(run))} /></div>
      <p class="actions"><a href=${link}>Look at it</a>
        ${changes.every((name) => SAID.has(name)) && html`<a href=${`/compare${writeQuery({ subject: [model, writeSubject(after.model, without(after, "model"), run)], ...runChanges(run) })}`}>Compare with now</a>`}
        <${CopyText} what="command" text=${command} /></p>
      <${Notes} notes=${each.notes} />
    </div>
  </li>`;
}

/**
 * A change as code that can be pasted: what transformers, or a serving engine, is told.
 * @param {Record<string, any>} change
 * @param {string} model as the hub has it
 * @param {boolean} serving
 */
function codeFor(change, model, serving) {
  const load = (/** @type {string} */ how) => `model = AutoModel.from_pretrained("${model}"${how})`;
  const serve = (/** @type {string} */ option) => `vllm serve ${model} ${option}`;
  /** @type {Record<string, (value: any) => string>} */
  const known = {
    dtype: (value) => load(`, dtype=torch.${{ fp16: "float16", bf16: "bfloat16", fp32: "float32" }[/** @type {"fp16"} */ (value)] ?? value}`),
    attention: (value) => load(`, attn_implementation="${value}"`),
    batch_size: (value) => serving ? serve(`--max-num-seqs ${value}`) : `loader = DataLoader(dataset, batch_size=${value})`,
    seq_len: (value) => `batch = tokenizer(texts, padding=True, truncation=True, max_length=${value})`,
    model: () => load(""),
    quantization: (value) => serve(`--quantization ${value}`),
    cache_dtype: (value) => serve(`--kv-cache-dtype ${value}`),
    tensor_parallel: (value) => serve(`--tensor-parallel-size ${value}`),
  };
  const setting = (/** @type {[string, any]} */ [name, value]) => known[name]?.(value) ?? `config.${name} = ${python(value)}`;
  return Object.entries(change).map(setting).join("\n");
}

/** @param {any} value as Python writes it */
const python = (value) => (value === true ? "True" : value === false ? "False" : value === null ? "None" : JSON.stringify(value));

/** @param {{what: string, text: string}} props something to copy, of which kind */
function CopyText({ what, text }) {
  const [said, say] = useState("");
  const copy = () => navigator.clipboard?.writeText(text).then(() => say("copied"), () => say(""));
  return html`<span class=${`copy-${what}`}><code>${text}</code>
    <button type="button" class="quiet" onClick=${copy}>Copy<span class="visually-hidden"> the ${what} ${text}</span></button>
    <span role="status" class="hint">${said}</span></span>`;
}

/** @param {string} words */
const sentence = (words) => `${/^\w*_/.test(words) ? words.charAt(0) : words.charAt(0).toUpperCase()}${words.slice(1)}.`;

/**
 * @param {Record<string, string>} run
 * @param {string} name
 */
function without(run, name) {
  return Object.fromEntries(Object.entries(run).filter(([each]) => each !== name));
}

/** @param {any[]} shown */
function cells(shown) {
  const head = ["rule", "title", "saving_j", "half_j", "share", "is_real", "effort", "accuracy", "change"];
  return [head, ...shown.map((each) => [each.rule, each.title, each.saving_j, each.half_j, each.share, each.is_real, each.effort, each.accuracy, Object.entries(each.change).map((pair) => pair.join("=")).join(" ")])];
}
