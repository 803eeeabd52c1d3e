// The first ten seconds: what this is, three ways in, examples.

import { html } from "../vendor/preact.js";
import { writeQuery } from "../lib/state.js";

/** @type {[string, string, string][]} question, what is there, where */
const WAYS = [
  ["Where does my model spend energy?", "Pick a model, or drop its config.json anywhere.", "/?model=bert-base-uncased"],
  ["What does serving an LLM cost?", "Joules per token, watts, tokens per second, for your GPU and load.", `/${writeQuery(chat("llama-3.1-8b", "b200"))}`],
  ["Which model should I take?", "Accuracy against energy, and a budget that chooses.", "/trade-off"],
];

/** @type {[string, string][]} */
const EXAMPLES = [
  ["Llama 8B on B200, chat", `/${writeQuery(chat("llama-3.1-8b", "b200"))}`],
  ["Llama 70B on 4 H100", `/${writeQuery({ ...chat("llama-3.1-70b", "h100"), tensor_parallel: 4 })}`],
  ["BERT base on a desktop", "/?model=bert-base-uncased"],
  ["BERT against DistilBERT", "/compare?subject=bert-base-uncased&subject=distilbert-base-uncased"],
  ["Halve GPT-2", "/suggest?model=gpt2"],
  ["All Qwen models on H200", `/leaderboard${writeQuery({ search: "qwen", ...chat("", "h200") })}`],
];

/**
 * @param {string} model
 * @param {string} on machine
 */
function chat(model, on) {
  return { model, on, batch_size: 64, prompt_len: 750, output_len: 500 };
}

export function Intro() {
  return html`<section class="intro" aria-label="What this is">
    <p class="tagline"><strong>irene</strong> says how much energy a model uses, and where inside it: predicted, with an interval, before you run it.</p>
    <ul class="ways">${WAYS.map(([question, words, href]) => html`<li key=${href}><a class="panel way" href=${href}><strong>${question}</strong><span class="soft">${words}</span></a></li>`)}</ul>
    <p class="chips" aria-label="Examples">${EXAMPLES.map(([words, href]) => html`<a key=${words} class="chip" href=${href}>${words}</a>`)}</p>
  </section>`;
}
