// Runs side by side: seeds as one line with its interval, tables with paired differences. The address holds it all.
import { get } from "./api.js";
import { Chart, spansDecades } from "./charts.js";
import { el, put } from "./dom.js";
import { bytes, duration, tick } from "./format.js";
import { choice, link, section, segments, state } from "./parts.js";
import { quiet } from "./stream.js";
import { plain } from "./table.js";

const AXES = {
  steps: { title: "server steps", format: tick, whole: true },
  seconds: { title: "virtual time", format: (value) => `${tick(value)} s` },
  real: { title: "real time", format: duration },
  traffic: { title: "bytes sent", format: bytes },
};
const EXPORTS = [["report.html", "Static report"], ["png", "PNG"], ["csv", "CSV"], ["tex", "LaTeX"]];
const MOST_LINES = 60;

export async function show(main, { query }) {
  const view = { names: query.getAll("run"), metric: query.get("metric") || "", over: query.get("over") in AXES ? query.get("over") : "steps", target: query.get("target") || "", baseline: query.get("baseline") || "" };
  const adder = el("input", { type: "text", id: "add", placeholder: "Add a run or a study", "aria-label": "Add a run or a study", list: "known", spellcheck: false });
  const known = el("datalist", { id: "known" });
  const chips = el("div", { class: "chips" }), result = el("div");
  let chart = null, timer = null, asked = 0;
  put(main, el("h1", {}, "Compare"), el("form", { class: "row", onsubmit: (event) => (event.preventDefault(), add()) }, adder, known, el("button", { type: "submit" }, "Add")), chips, result);
  adder.addEventListener("change", () => [...known.children].some((each) => each.value === adder.value) && add());

  function parameters() {
    const pairs = view.names.map((name) => ["run", name]);
    for (const key of ["metric", "target", "baseline"]) if (view[key]) pairs.push([key, view[key]]);
    return new URLSearchParams(pairs);
  }

  function add() {
    const name = adder.value.trim();
    if (name && !view.names.includes(name)) view.names.push(name);
    adder.value = "";
    draw();
  }

  function drawChips() {
    put(chips, view.names.map((name) => el("span", { class: "chip" }, name, el("button", { type: "button", class: "quiet", "aria-label": `Remove ${name}`, onclick: () => ((view.names = view.names.filter((each) => each !== name)), draw()) }, "×"))));
  }

  async function draw() {
    drawChips();
    const words = parameters();
    if (view.over !== "steps") words.set("over", view.over);
    history.replaceState(null, "", `#/compare${words.size ? "?" + words : ""}`);
    if (!view.names.length) return put(result, el("p", { class: "soft empty" }, "Select runs in the list and press Compare, or add a run or a study here."));
    const mine = ++asked;
    if (!result.childElementCount) put(result, el("p", { class: "soft" }, "Loading runs …"));
    try {
      const found = await get(`/api/compare?${parameters()}`);
      if (mine === asked) drawResult(found);
    } catch (error) {
      if (mine === asked) put(result, el("p", { class: "operator" }, error.message));
    }
  }

  function drawResult(found) {
    const [metric, goal] = found.target || [found.metric, null];
    const target = el("input", { type: "number", id: "target", step: "any", value: goal ?? "", placeholder: "none", "aria-label": `Target of ${found.metric}`, onchange: () => ((view.target = target.value === "" ? "" : `${found.metric}=${target.value}`), draw()) });
    target.style.width = "7em";
    const tools = el("div", { class: "row" },
      choice("Metric", (found.metrics.length ? found.metrics : [found.metric]).map((name) => [name, name]), found.metric, (value) => ((view.metric = value), (view.target = ""), draw())),
      segments("Horizontal axis", Object.entries(AXES).map(([key, { title }]) => [key, title]), view.over, (key) => ((view.over = key), draw())),
      el("label", { for: "target", class: "soft" }, "target"), target,
      el("label", { class: "soft" }, "against "), choice("Baseline of the differences", found.rows.map(({ label }) => [label, label]), found.baseline, (value) => ((view.baseline = value), draw())));
    chart?.destroy();
    chart = drawChart(found, metric === found.metric ? goal : null);
    const legend = el("ul", { class: "legend" }, found.rows.map(({ label, runs }, place) => el("li", {}, el("span", { class: `dot s${place % 7}` }), el("b", {}, label), runs.length > 1 ? el("span", { class: "soft" }, `${runs.length} seeds`) : null)));
    const note = found.rows.some((row) => row.mean) ? el("p", { class: "soft small" }, "Thick: the mean over seeds, with its 95 % t-interval; thin: each seed.") : null;
    const covered = found.covered ? el("p", { class: "operator" }, "Private runs: differential privacy covers ", found.covered, ".") : null;
    put(result, covered, tools, el("div", { class: "charts" }, chart.node), legend, note,
      section("Results", el("div", { class: "card" }, plain(found.tables[0].header, found.tables[0].rows, found.tables[0].align, found.tables[0].caption))),
      found.tables[1] ? section("Paired differences", el("div", { class: "card" }, plain(found.tables[1].header, found.tables[1].rows, found.tables[1].align, found.tables[1].caption))) : null,
      section("Export", el("div", { class: "row" }, EXPORTS.map(([kind, title]) => el("a", { class: "button", href: `/api/compare/${kind}?${parameters()}`, download: "" }, title)), el("span", { class: "soft small" }, "The URL of this page restores this view."))),
      section("Runs", el("div", { class: "card wide" }, el("table", {}, el("tbody", {}, found.rows.flatMap(members))))));
    clearTimeout(timer);
    if (found.running) timer = setTimeout(draw, 2000);
  }

  function drawChart(found, goal) {
    const lines = [], bands = [], tables = [];
    found.rows.forEach(({ label, runs, mean }, place) => {
      for (const run of lines.length < MOST_LINES ? runs : []) {
        tables.push(ordered(run[view.over], run.values));
        lines.push({ label: runs.length > 1 ? `${label}, seed ${run.seed}` : label, place, thin: Boolean(mean) });
      }
      if (!mean) return;
      tables.push(ordered(mean[view.over], mean.values, mean.high, mean.low));
      lines.push({ label, place }, { label: "high", place, faint: true }, { label: "low", place, faint: true });
      bands.push([lines.length - 1, lines.length, place]);
    });
    const some = tables.filter(([xs]) => xs.length);
    const data = some.length === tables.length && some.length ? uPlot.join(tables) : [[], ...lines.map(() => [])];
    const log = found.metric.includes("loss") && spansDecades(data.slice(1).flat().filter((value) => value !== undefined));
    const made = new Chart({ title: `${found.metric} over ${AXES[view.over].title}`, lines, bands, x: AXES[view.over], log, goal, tall: true });
    made.set(data);
    return made;
  }

  const refill = async () => {
    const names = (await get("/api/runs")).map((run) => run.name);
    const studies = [...new Set(names.filter((name) => name.includes("/")).map((name) => name.split("/").slice(0, -2).join("/")).filter(Boolean))];
    put(known, [...studies, ...names.reverse().slice(0, 500)].map((name) => el("option", { value: name })));
  };
  await draw();
  quiet();
  refill();
  return () => (clearTimeout(timer), asked++, chart?.destroy());
}

function members({ label, runs }) {
  return runs.map((run) => el("tr", {}, el("th", { scope: "row" }, el("a", { href: link(run.name) }, run.name)), el("td", {}, label), el("td", { class: "num" }, `seed ${run.seed}`), el("td", {}, state(run.state))));
}

// Points in the order of the axis, without those whose place is not known.
function ordered(xs, ...columns) {
  const places = xs.map((_, at) => at).filter((at) => xs[at] !== null && xs[at] !== undefined).sort((a, b) => xs[a] - xs[b]);
  const once = places.filter((at, n) => n === 0 || xs[at] !== xs[places[n - 1]]);
  return [xs, ...columns].map((column) => once.map((at) => column[at]));
}
