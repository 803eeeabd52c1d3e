// All models by their energy: filters, sort, units.

import { html, useEffect, useMemo } from "../vendor/preact.js";
import { AnswerPage } from "../components/AnswerPage.js";
import { Choice, Entry, Notes, SortHead, Units } from "../components/Controls.js";
import { useModels } from "../components/ModelCombobox.js";
import { RunForm } from "../components/RunForm.js";
import { useAnswer } from "../lib/answer.js";
import { apiUrl } from "../lib/api.js";
import { counted, energyPer, intervalPer, joulesPerGflop, PER, SORTS, sorted, unitWord } from "../lib/board.js";
import { barsSvg } from "../lib/picture.js";
import { count, digits, flops, integer, interval, joules, plural, si } from "../lib/format.js";
import { isServing, readRun, runChanges, runOptions } from "../lib/run.js";
import { choice, flag, list, text, writeQuery } from "../lib/state.js";
import { commandLine, writeSubject } from "../lib/subjects.js";

export const title = "Leaderboard";

const PARAMS = [["", "any"], ["1e7", "10 M"], ["3e7", "30 M"], ["1e8", "100 M"], ["3e8", "300 M"], ["1e9", "1 G"], ["3e9", "3 G"], ["1e10", "10 G"]];
const MOST_COMPARED = 6;
/** Between two looks at a board that fills: at first, and when there is something to read. */
const [SOON_MS, POLL_MS] = [400, 1500];

/** @param {{query: any, setQuery: any}} props */
export default function LeaderboardPage({ query, setQuery }) {
  const run = readRun(query);
  const serving = isServing(run);
  const usualPer = serving ? "token" : "sequence";
  const per = choice(query, "per", [usualPer, ...PER]);
  const unit = unitWord(per, serving);
  const by = choice(query, "sort", SORTS);
  const down = flag(query, "down");
  const limit = text(query, "limit");
  const filters = { search: text(query, "search"), family: text(query, "family"), kind: text(query, "kind"), min_params: text(query, "min_params"), max_params: text(query, "max_params") };
  const answer = useBoard({ ...run, ...filters, limit });
  const models = useModels();
  const all = answer.document?.models ?? [];
  const pending = answer.document?.pending ?? 0;
  const shown = useMemo(() => sorted(all, by, down, per), [answer.document, by, down, per]);
  const picked = list(query, "pick").filter((name) => all.some((/** @type {any} */ each) => each.model === name));
  const take = {
    name: "leaderboard", csv: () => cells(shown), json: () => answer.document, api: () => apiUrl("/leaderboard", { ...run, ...filters, limit }),
    svg: shown.length ? () => barsSvg(`Energy per ${unit}`, shown.filter((each) => each.energy).map((each) => ({ label: each.model, value: energyPer(each, per), text: joules(energyPer(each, per)) }))) : undefined,
    cli: () => commandLine("leaderboard", filters.search.split(/\s+/).filter(Boolean), { ...runOptions(run), ...filters, limit }),
  };
  const lede = answer.document ? headline(shown, per, unit) : "All models of the catalogue by their energy.";
  const side = html`
    <fieldset class="group"><legend>Which models</legend>
      <${Entry} label="Search" type="search" search value=${filters.search} placeholder="name, family or kind" onChange=${(/** @type {string} */ words) => setQuery({ search: words }, { replace: true })} />
      <div class="field-row">
        <${Choice} label="Family" value=${filters.family} options=${choices(models, "family", filters.family)} onChange=${(/** @type {string} */ value) => setQuery({ family: value })} />
        <${Choice} label="Kind" value=${filters.kind} options=${choices(models, "kind", filters.kind)} onChange=${(/** @type {string} */ value) => setQuery({ kind: value })} />
        <${Choice} label="Parameters from" value=${filters.min_params} options=${PARAMS} onChange=${(/** @type {string} */ value) => setQuery({ min_params: value })} />
        <${Choice} label="up to" value=${filters.max_params} options=${PARAMS} onChange=${(/** @type {string} */ value) => setQuery({ max_params: value })} />
      </div>
      <${Choice} label="Catalogue" value=${limit} options=${limits(limit)} onChange=${(/** @type {string} */ value) => setQuery({ limit: value })} />
      <${Units} per=${per} usual=${usualPer} serving=${serving} setQuery=${setQuery} />
    </fieldset>
    <${RunForm} run=${run} resolved=${answer.document?.run} onRun=${(/** @type {any} */ next, /** @type {any} */ how) => setQuery(runChanges(next), how)} />`;
  const busy = pending ? `${integer(all.length)} models; ${integer(pending)} more are being predicted, once for these settings` : "Predicting";
  return html`<${AnswerPage} name="Leaderboard" lede=${lede} on=${answer.document?.hardware} take=${take} side=${side} change="filters and the run" answer=${answer} busy=${busy}>
    ${picked.length > 0 && html`<p class="panel picked-bar">
      <a class="button" href=${`/compare${writeQuery({ subject: picked.map((name) => writeSubject(name, {})), ...runChanges(run) })}`}>Compare ${plural(picked.length, "model")}</a>
      <button type="button" class="quiet" onClick=${() => setQuery({ pick: null })}>Clear</button>
      <span>${picked.join(", ")}</span></p>`}
    ${answer.document && html`<div class="panel"><${Table} shown=${shown} per=${per} unit=${unit} by=${by} down=${down} run=${run} picked=${picked} setQuery=${setQuery} /></div>
      <${Notes} label="Left out" notes=${answer.document.left_out.map((/** @type {any} */ each) => `${each.model}: ${each.problem}`)} />`}
  </${AnswerPage}>`;
}

/**
 * How much of the catalogue: all takes a while the first time.
 * @param {string} now
 */
function limits(now) {
  const known = ["", "20", "50", "100"];
  return (known.includes(now) ? known : [...known, now]).map((each) => [each, each ? `the ${each} smallest` : "all models"]);
}

/**
 * Hook: the board, with what is known at once, asked again while models are missing.
 * @param {Record<string, string>} run
 */
function useBoard(run) {
  const answer = useAnswer("/leaderboard", { ...run, partial: "true" }, { wait: 300 });
  const pending = answer.document?.pending ?? 0;
  useEffect(() => {
    if (!pending || answer.busy) return undefined;
    const timer = setTimeout(answer.retry, answer.document.models.length ? POLL_MS : SOON_MS);
    return () => clearTimeout(timer);
  }, [answer.document, answer.busy]);
  return { ...answer, busy: answer.busy || pending > 0 };
}

/**
 * @param {any[]} all
 * @param {"family" | "kind"} field
 * @param {string} now
 * @returns {[string, string][]}
 */
function choices(all, field, now) {
  const known = counted(all, field).map(([name, number]) => /** @type {[string, string]} */ ([name, `${name} (${number})`]));
  const own = now && !known.some(([name]) => name === now) ? [/** @type {[string, string]} */ ([now, now])] : [];
  return [["", "any"], ...own, ...known];
}

/**
 * @param {any[]} shown
 * @param {string} per
 * @param {string} unit in words
 */
function headline(shown, per, unit) {
  const known = shown.filter((each) => each.energy);
  if (!known.length) return "No model fits these filters.";
  const [least, most] = known.reduce(([low, high], each) => [
    energyPer(each, per) < energyPer(low, per) ? each : low,
    energyPer(each, per) > energyPer(high, per) ? each : high,
  ], [known[0], known[0]]);
  return html`${plural(shown.length, "model")}: from <strong>${least.model}</strong> at ${joules(energyPer(least, per))}${" "}
    to <strong>${most.model}</strong> at ${joules(energyPer(most, per))} per ${unit}.`;
}

/** @param {{shown: any[], per: string, unit: string, by: string, down: boolean, run: any, picked: string[], setQuery: any}} props */
function Table({ shown, per, unit, by, down, run, picked, setQuery }) {
  const most = shown.reduce((all, each) => Math.max(all, energyPer(each, per) || 0), 0);
  const least = shown.reduce((all, each) => Math.min(all, energyPer(each, per) || Infinity), Infinity);
  const onSort = (/** @type {string} */ name, /** @type {boolean} */ isDown) => setQuery({ sort: name === "energy" ? null : name, down: isDown ? 1 : null });
  const pick = (/** @type {string} */ name, /** @type {boolean} */ on) =>
    setQuery({ pick: on ? [...picked, name].slice(-MOST_COMPARED) : picked.filter((each) => each !== name) }, { replace: true });
  const head = { by, down, onSort };
  const scored = shown.some((each) => each.accuracy);
  return html`<div class="table-scroll tall" tabindex="0" role="region" aria-label="Models by energy">
    <table class="data board">
      <thead><tr>
        <th scope="col"><span class="visually-hidden">Pick to compare</span></th>
        <th scope="col" class="number">#</th>
        <${SortHead} ...${head} name="model">Model</${SortHead}>
        <${SortHead} ...${head} name="energy" number>J per ${unit}</${SortHead}>
        <th scope="col" class="number">Interval</th>
        ${scored && html`<${SortHead} ...${head} name="accuracy" number first="down"><abbr title="published accuracy on SST-2, of the fine-tuned model">SST-2</abbr></${SortHead}>`}
        <${SortHead} ...${head} name="family">What it is</${SortHead}>
        <${SortHead} ...${head} name="params" number first="down">Parameters</${SortHead}>
        <${SortHead} ...${head} name="flops" number first="down">Compute</${SortHead}>
        <${SortHead} ...${head} name="efficiency" number>J per GFLOP</${SortHead}>
      </tr></thead>
      <tbody>${shown.map((each, index) => {
        const energy = energyPer(each, per);
        const [low, high] = intervalPer(each, per);
        return html`<tr key=${each.model}>
          <td><label class="pick"><input type="checkbox" aria-label=${`Pick ${each.model} to compare`} checked=${picked.includes(each.model)} onChange=${(/** @type {any} */ event) => pick(each.model, event.target.checked)} /></label></td>
          <td class="number hint">${index + 1}</td>
          <th scope="row"><a href=${`/${writeQuery({ model: each.model, ...runChanges(run) })}`}>${each.model}</a></th>
          ${each.energy
            ? html`<td class="number energy-cell"><span class="cell-bar" aria-hidden="true" style=${{ "--part": logPart(energy, least, most) }}></span><span class="cell-text">${joules(energy)}</span></td>
                <td class="number hint">${interval(energy, low, high)}${each.is_extrapolated && html` <abbr title="outside what this machine was measured on: the interval is wider">rough</abbr>`}${each.fits === false && html` <span class="badge bad">does not fit</span>`}</td>`
            : html`<td colspan="2" class="hint">${each.problem || "not known"}</td>`}
          ${scored && html`<td class="number">${each.accuracy ? `${digits(each.accuracy)} %` : html`<span class="hint">–</span>`}</td>`}
          <td title=${each.family}>${KINDS[each.kind] ?? each.kind}, ${sizeWord(each.params)}</td>
          <td class="number">${count(each.params)}</td>
          <td class="number">${flops(each.flops)}</td>
          <td class="number">${si(joulesPerGflop(each), "J")}</td>
        </tr>`;
      })}</tbody>
    </table>
  </div>`;
}

/** @type {Record<string, string>} */
const KINDS = {
  encoder: "reads text", decoder: "writes text", "encoder-decoder": "rewrites text", vision: "sees images", audio: "hears speech", multimodal: "text and images",
};

/** @param {number} params */
const sizeWord = (params) => (params < 5e7 ? "tiny" : params < 2e8 ? "small" : params < 2e9 ? "medium" : params < 2e10 ? "large" : "very large");

/**
 * How long a bar is, of the longest: logarithmic, so that the small ones can be told apart.
 * @param {number} value
 * @param {number} least
 * @param {number} most
 */
function logPart(value, least, most) {
  if (!(value > 0) || !(most > least)) return value > 0 ? 1 : 0;
  return 0.04 + (0.96 * Math.log(value / least)) / Math.log(most / least);
}

/** @param {any[]} shown */
function cells(shown) {
  const head = ["place", "model", "family", "kind", "params", "energy_j", "low_j", "high_j", "source", "per_sequence_j", "per_token_j", "flops", "accuracy", "is_extrapolated", "problem"];
  return [head, ...shown.map((each, index) => [
    index + 1, each.model, each.family, each.kind, each.params, each.energy?.joules, each.energy?.low, each.energy?.high,
    each.energy?.source, each.per_sequence_j, each.per_token_j, each.flops, each.accuracy, each.is_extrapolated, each.problem,
  ])];
}
