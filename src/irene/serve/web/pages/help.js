// How to read the pages, and every key.

import { html } from "../vendor/preact.js";
import { KeyTables } from "../components/KeyboardHelp.js";

export const title = "Help";

export default function Help() {
  return html`<div class="page">
    <section class="prose">
      <h1>Help</h1>
      <p>
        <a href="/">Explore</a> shows one run of one model: how much energy it uses, and in which of its parts.
        A model is a tree of modules; modules are made of ML primitives such as matrix products. Every part has its
        energy, with an interval and its source: <em>predicted</em> from shapes alone, <em>measured</em> under a
        meter, or <em>estimated</em>.
      </p>
      <ul>
        <li><strong>×12</strong> means that 12 equal layers are shown as one. Click it to see them one by one.</li>
        <li><strong>Hover</strong> shows a part's details; a <strong>click</strong> pins them. The address then names the part.</li>
        <li><strong>Search</strong> says how much of the energy the matches carry. What is below a match counts once.</li>
        <li><strong>Top 90 %</strong> keeps the fewest leaves that carry nine tenths of the energy.</li>
        <li><strong>± 3 %</strong> is half the width of the interval; <strong>factor 2.4</strong> is one from 2.4 times less to 2.4 times more. How many measurements are expected inside it is stated on <a href="/method">Method</a>, where it is known.</li>
        <li><strong>Export</strong> gives pictures, tables, the document, the API call and the command for what is on screen.</li>
        <li>The address holds everything but the list of open nodes: copy it to share what you see.</li>
      </ul>
      <p>
        Where the figures come from is on <a href="/method">Method</a>. The same answers come from the${" "}
        <a href="/api/v1/openapi.json" target="_blank" rel="noopener">HTTP API</a> and from the command <code>irene</code>.
      </p>
    </section>
    <section class="panel" aria-labelledby="keys-heading"><h2 id="keys-heading">Keyboard</h2><${KeyTables} /></section>
  </div>`;
}
