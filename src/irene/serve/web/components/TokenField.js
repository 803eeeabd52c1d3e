// A server that listens to others asks for a token before it takes jobs and uploads.

import { html, useState } from "../vendor/preact.js";
import { Entry } from "./Controls.js";
import { storeToken } from "../lib/api.js";

/** @param {{onToken: () => void}} props */
export function TokenField({ onToken }) {
  const [token, setToken] = useState("");
  const use = (/** @type {Event} */ event) => {
    event.preventDefault();
    storeToken(token);
    onToken();
  };
  return html`<form class="panel" onSubmit=${use}>
    <${Entry} label="Token of this server" type="password" value=${token} onChange=${setToken} hint="kept in this tab alone" />
    <p class="actions"><button type="submit" class="primary">Try with this token</button></p>
  </form>`;
}
