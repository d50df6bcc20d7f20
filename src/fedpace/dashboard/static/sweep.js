// A sweep: its points as lines over their settings, as a map over two of them, and ranked.
import { get } from "./api.js";
import { el, onScheme, put, svg } from "./dom.js";
import { metric as shown } from "./format.js";
import { choice, fact, link, section, state } from "./parts.js";
import { quiet } from "./stream.js";

// Viridis, at eleven places: it rises in lightness, so it is read without colours, too.
const VIRIDIS = [[68, 1, 84], [72, 36, 117], [65, 68, 135], [53, 95, 141], [42, 120, 142], [33, 145, 140], [34, 168, 132], [68, 191, 112], [122, 209, 81], [189, 223, 38], [253, 231, 37]];
const FLOOR = 0.15; // its darkest end would be lost on a dark page
const WIDTH = 960, HEIGHT = 320, EDGE = 60;

export async function show(main, { query }) {
  const view = { names: query.getAll("run"), metric: query.get("metric") || "", across: query.get("x") || "", down: query.get("y") || "" };
  const field = el("input", { type: "text", id: "sweep", placeholder: "A study, or a prefix of run names", "aria-label": "Study", list: "known", spellcheck: false });
  const known = el("datalist", { id: "known" }), result = el("div");
  put(main, el("h1", {}, "Sweep"), el("form", { class: "row", onsubmit: (event) => (event.preventDefault(), (view.names = field.value.trim() ? [field.value.trim()] : []), draw()) }, field, known, el("button", { type: "submit" }, "Show")), result);
  if (view.names.length === 1) field.value = view.names[0];

  async function draw() {
    const words = new URLSearchParams(view.names.map((name) => ["run", name]));
    for (const [key, value] of [["metric", view.metric], ["x", view.across], ["y", view.down]]) if (value) words.set(key, value);
    history.replaceState(null, "", `#/sweep${words.size ? "?" + words : ""}`);
    if (!view.names.length) return put(result, el("p", { class: "soft empty" }, "Name a study, or select runs in the list and press Sweep."));
    try {
      drawPoints(await get(`/api/sweep?${words}`));
    } catch (error) {
      put(result, el("p", { class: "operator" }, error.message));
    }
  }

  function drawPoints(found) {
    const { points, names } = found, good = points.filter((point) => point.mean !== null);
    const best = good[0];
    const across = names.includes(view.across) ? view.across : names[0], down = names.includes(view.down) && view.down !== across ? view.down : names.find((name) => name !== across);
    const tools = el("div", { class: "row" }, choice("Metric", found.metrics.map((name) => [name, name]), found.metric, (value) => ((view.metric = value), draw())), el("span", { class: "soft" }, `${points.length} points, ${points.length - good.length} of them unfinished or failed`));
    put(result, tools,
      best ? section("Best point", el("div", { class: "facts" }, fact(found.metric, shown(best.mean)), names.map((name) => fact(name, best.settings[name] ?? "–")), fact("seeds", String(best.seeds)))) : null,
      names.length ? section("Parallel coordinates", el("div", { class: "card wide" }, parallel(good, names, found))) : el("p", { class: "soft" }, "These runs do not differ in their settings."),
      down ? section("Heat map", el("div", { class: "row" },
        choice("Across", names.map((name) => [name, `across: ${name}`]), across, (value) => ((view.across = value), draw())),
        choice("Down", names.filter((name) => name !== across).map((name) => [name, `down: ${name}`]), down, (value) => ((view.down = value), draw())),
        el("span", { class: "soft small" }, names.length > 2 ? "Of several points in a cell, the best." : "")), el("div", { class: "card wide" }, heatMap(points, across, down, found))) : null,
      section("Ranking", el("div", { class: "card" }, ranking(points, names, found))));
  }

  const forget = onScheme(draw);
  await draw();
  quiet();
  get("/api/runs").then((runs) => put(known, [...new Set(runs.map((run) => run.name).filter((name) => name.includes("/")).map((name) => name.split("/").slice(0, -2).join("/")))].map((name) => el("option", { value: name }))));
  return forget;
}

function shade(value, low, high, rises) {
  const share = high > low ? (value - low) / (high - low) : 1;
  const at = (FLOOR + (1 - FLOOR) * (rises ? share : 1 - share)) * (VIRIDIS.length - 1), from = Math.floor(at), to = Math.min(from + 1, VIRIDIS.length - 1);
  const mixed = VIRIDIS[from].map((part, n) => Math.round(part + (VIRIDIS[to][n] - part) * (at - from)));
  return { fill: `rgb(${mixed})`, dark: mixed[0] * 0.3 + mixed[1] * 0.59 + mixed[2] * 0.11 < 130 };
}

const numeric = (values) => values.every((value) => value !== undefined && value.trim() !== "" && Number.isFinite(Number(value)));
const inOrder = (values) => [...new Set(values)].sort((a, b) => (numeric([a, b]) ? a - b : String(a) < String(b) ? -1 : 1));

function parallel(points, names, { metric, rises }) {
  const root = svg("svg", { class: "figure", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${metric} over ${names.join(", ")}` });
  const axes = [...names, metric], gap = (WIDTH - 2 * EDGE) / Math.max(1, axes.length - 1), x = (at) => EDGE + at * gap;
  const [top, bottom] = [36, HEIGHT - 24];
  const values = points.map((point) => point.mean), low = Math.min(...values), high = Math.max(...values);
  const scales = axes.map((name, at) => {
    if (at === names.length) return (point) => (high > low ? bottom - ((point.mean - low) / (high - low)) * (bottom - top) : (top + bottom) / 2);
    const known = inOrder(points.map((point) => point.settings[name]));
    return (point) => (known.length > 1 ? bottom - (known.indexOf(point.settings[name]) / (known.length - 1)) * (bottom - top) : (top + bottom) / 2);
  });
  [...points].reverse().forEach((point, place) => {
    const path = svg("path", { class: `path${place === points.length - 1 ? " best" : ""}`, d: scales.map((scale, at) => `${at ? "L" : "M"}${x(at).toFixed(1)} ${scale(point).toFixed(1)}`).join("") });
    if (place < points.length - 1) path.style.stroke = shade(point.mean, low, high, rises).fill;
    const title = svg("title");
    title.textContent = `${names.map((name) => `${name} ${point.settings[name]}`).join(", ")}: ${metric} ${shown(point.mean)}`;
    path.append(title);
    root.append(path);
  });
  axes.forEach((name, at) => {
    root.append(svg("line", { class: "axis", x1: x(at), x2: x(at), y1: top, y2: bottom }), label(x(at), 16, name, "middle", at === names.length ? "bold" : ""));
    const marks = at === names.length ? [[shown(high), top], [shown(low), bottom]] : inOrder(points.map((point) => point.settings[name])).map((value, n, all) => [value, all.length > 1 ? bottom - (n / (all.length - 1)) * (bottom - top) : (top + bottom) / 2]);
    const few = Math.ceil(marks.length / 12);
    marks.filter((_, n) => n % few === 0).forEach(([text, y]) => root.append(label(x(at) + 7, y + 4, String(text ?? "–"), "start")));
  });
  return root;
}

function heatMap(points, across, down, { metric, rises }) {
  const xs = inOrder(points.map((point) => point.settings[across])), ys = inOrder(points.map((point) => point.settings[down])).reverse();
  const wide = Math.min(120, (WIDTH - 140) / xs.length), high = 34, known = points.filter((point) => point.mean !== null).map((point) => point.mean);
  const [least, most] = [Math.min(...known), Math.max(...known)];
  const root = svg("svg", { class: "figure", viewBox: `0 0 ${WIDTH} ${ys.length * high + 60}`, role: "img", "aria-label": `${metric} over ${across} and ${down}` });
  ys.forEach((y, row) => {
    root.append(label(122, row * high + high / 2 + 4, String(y ?? "–"), "end"));
    xs.forEach((value, column) => {
      const here = points.find((point) => point.settings[across] === value && point.settings[down] === y); // the best: points are ranked
      if (!here) return;
      const { fill, dark } = here.mean === null ? { fill: "none", dark: false } : shade(here.mean, least, most, rises);
      const box = svg("rect", { x: 130 + column * wide, y: row * high, width: wide - 2, height: high - 2, rx: 4 });
      box.style.fill = here.mean === null ? "var(--line)" : fill;
      const text = svg("text", { class: "cell-text", x: 130 + column * wide + wide / 2 - 1, y: row * high + high / 2 + 4 });
      text.style.fill = here.mean === null ? "var(--soft)" : dark ? "#fff" : "#111";
      text.textContent = here.mean === null ? here.state : wide > 44 ? shown(here.mean) : "";
      const title = svg("title");
      title.textContent = `${across} ${value}, ${down} ${y}: ${here.mean === null ? here.state : shown(here.mean)}`;
      box.append(title);
      root.append(box, text);
    });
  });
  xs.forEach((value, column) => root.append(label(130 + column * wide + wide / 2, ys.length * high + 18, String(value ?? "–"), "middle")));
  root.append(label(130 + (wide * xs.length) / 2, ys.length * high + 42, across, "middle", "bold"), label(6, 16, down, "start", "bold"));
  return root;
}

function label(x, y, text, anchor, weight = "") {
  const node = svg("text", { x, y, "text-anchor": anchor, class: "halo" });
  if (weight) node.style.fontWeight = "600";
  node.textContent = text;
  return node;
}

function ranking(points, names, { metric }) {
  const rows = points.slice(0, 200).map((point) => el("tr", {},
    names.map((name) => el("td", { class: "num" }, point.settings[name] ?? "")),
    el("td", { class: "num" }, point.mean === null ? "" : shown(point.mean) + (point.spread === null ? "" : ` ± ${shown(point.spread)}`)),
    el("td", { class: "num" }, String(point.seeds)), el("td", {}, state(point.state)), el("td", {}, el("a", { href: point.runs.length > 1 ? `#/compare?${new URLSearchParams(point.runs.map((name) => ["run", name]))}` : link(point.runs[0]) }, point.runs.length > 1 ? `${point.runs.length} runs` : point.runs[0]))));
  return el("div", { class: "wide" }, el("table", {}, el("thead", {}, el("tr", {}, [...names, metric, "seeds"].map((name) => el("th", { class: "num", scope: "col" }, name)), el("th", {}, "state"), el("th", {}, "runs"))), el("tbody", {}, rows)));
}
