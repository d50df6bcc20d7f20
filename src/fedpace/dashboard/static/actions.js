// Start an experiment of the server's folder; what was done through this page.
import { act, get } from "./api.js";
import { ask } from "./dialog.js";
import { el, put } from "./dom.js";
import { when } from "./format.js";
import { section } from "./parts.js";
import { quiet } from "./stream.js";
import { plain } from "./table.js";

export async function show(main) {
  const files = el("div"), log = el("div");
  put(main, el("h1", {}, "Actions"), section("Start an experiment", files), section("Action log", log));

  function drawFiles(known) {
    if (known === null) return put(files, el("p", { class: "soft" }, "fedpace ui was started without --experiments DIR: nothing can be started from here."));
    if (!known.length) return put(files, el("p", { class: "soft" }, "The folder has no experiment file (*.toml)."));
    put(files, el("div", { class: "card wide" }, el("table", {}, el("tbody", {}, known.map((file) => el("tr", {},
      el("th", { scope: "row" }, file.name),
      el("td", { class: "text" }, file.error || [`fedpace ${file.verb}`, ...Object.entries(file.about || {}).map(([key, value]) => `${key} ${value}`)].join(", ")),
      el("td", { class: "num" }, el("button", { type: "button", disabled: Boolean(file.error), "aria-label": `Start ${file.name}`, onclick: () => start(file) }, "Start"))))))));
  }

  async function start(file) {
    if (!(await ask("Start this experiment?", [el("p", {}, `fedpace ${file.verb} ${file.name} runs on the machine of this server.`)], "Start"))) return;
    if (await act("POST", "/api/actions/start", { name: file.name })) drawLog();
  }

  async function drawLog() {
    const lines = await get("/api/actions");
    put(log, lines.length
      ? el("div", { class: "card" }, plain(["time", "action", "subject", "result", "from"], lines.map((line) => [when(line.time * 1000), line.action, line.subject, line.result, line.by].map(String)), "lllll"))
      : el("p", { class: "soft" }, "Nothing yet."));
  }

  drawFiles(await get("/api/experiments"));
  await drawLog();
  quiet();
  const timer = setInterval(() => document.hidden || drawLog().catch(() => {}), 3000);
  return () => clearInterval(timer);
}
