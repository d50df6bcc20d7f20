// The address says which view is shown and how; a link to it shows the same again.
import { el, notice, put } from "./dom.js";
import { tell } from "./dialog.js";
import { exchange, takeFromAddress } from "./token.js";

const VIEWS = {
  runs: () => import("./runs.js"),
  run: () => import("./run.js"),
  compare: () => import("./compare.js"),
  sweep: () => import("./sweep.js"),
  fleet: () => import("./fleet.js"),
  actions: () => import("./actions.js"),
};
const main = document.getElementById("view");
let leave = () => {};

async function route() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, ...rest] = path.split("/");
  const name = view in VIEWS ? view : "runs";
  leave();
  leave = () => {};
  for (const link of document.querySelectorAll("nav [data-view]")) {
    if (link.dataset.view === name || (name === "run" && link.dataset.view === "runs")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const here = location.hash;
  try {
    const module = await VIEWS[name]();
    if (here !== location.hash) return;
    put(main);
    leave = (await module.show(main, { name: rest.map(decodeURIComponent).join("/"), query: new URLSearchParams(query) })) || leave;
  } catch (error) {
    put(main, el("section", { class: "empty" }, el("h1", {}, "Not found"), el("p", {}, error.message), el("p", {}, el("a", { href: "#/runs" }, "All runs"))));
  }
}

const KEYS = [
  ["/", "search runs"],
  ["↑ ↓", "move in a table"],
  ["Enter", "open the run"],
  ["Space", "select the run"],
  ["c", "compare the selected runs"],
  ["+ − ← → 0", "zoom and move the client timeline"],
  ["g, then r c s f a", "go to runs, compare, sweep, fleet, actions"],
  ["?", "this list"],
];
const showKeys = () => tell("Keyboard", [el("dl", { class: "keys" }, KEYS.flatMap(([key, what]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, what)]))]);

let going = false;
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, dialog") || event.ctrlKey || event.metaKey || event.altKey;
  if (typing) return;
  const to = { r: "runs", c: "compare", s: "sweep", f: "fleet", a: "actions" }[event.key];
  if (going && to) location.hash = `#/${to}`;
  else if (event.key === "?") showKeys();
  going = event.key === "g";
});
document.getElementById("help").addEventListener("click", showKeys);
document.querySelector(".skip").addEventListener("click", (event) => (event.preventDefault(), main.focus()));

const token = takeFromAddress();
if (token) exchange(token).then((good) => good || notice("The token in the address is not the one of this server."));
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#token=")) return location.reload();
  route();
});
route();
