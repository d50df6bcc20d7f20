// What the server is asked. Reading is plain; actions carry the token and are confirmed before they are sent.
import { el, notice } from "./dom.js";
import { ask } from "./dialog.js";
import { exchange, forget, known } from "./token.js";

export const encoded = (name) => encodeURIComponent(name);

export async function get(path) {
  const answer = await fetch(path);
  if (answer.status === 401) return location.reload(), new Promise(() => {});
  if (!answer.ok) throw new Error(await reason(answer));
  return answer.json();
}

export async function binary(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(await reason(answer));
  return answer.arrayBuffer();
}

async function reason(answer) {
  try {
    return (await answer.json()).error || answer.statusText;
  } catch {
    return answer.statusText;
  }
}

// The answer, or null if it was refused; a refusal is shown.
export async function act(method, path, body) {
  const token = known() || (await askForToken());
  if (!token) return null;
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  if (answer.status === 401) forget();
  if (!answer.ok) return notice(await reason(answer)), null;
  return answer.json();
}

async function askForToken() {
  const field = el("input", { type: "password", id: "asked-token", autocomplete: "off", spellcheck: false });
  const said = [el("p", {}, "Changes need the token that fedpace ui printed, or that it was given."), el("label", { for: "asked-token" }, "Token"), field];
  if (!(await ask("Token", said, "Continue"))) return null;
  const token = field.value.trim();
  if (token && (await exchange(token))) return token;
  return notice("This is not the token of this server."), null;
}
