// One run: its curves grow while it trains.
import { act, encoded, get } from "./api.js";
import { runButtons } from "./changes.js";
import { Chart, spansDecades } from "./charts.js";
import { clientTable } from "./clients.js";
import { el, notice, put } from "./dom.js";
import { bytes, digits, duration, metric, seconds, tick, when, whole } from "./format.js";
import { card, copyable, fact, progress, section, segments, state } from "./parts.js";
import { quiet, stream } from "./stream.js";
import { timelineSection } from "./timeline.js";

const AXES = {
  steps: { title: "server steps", format: tick, whole: true },
  virtual: { title: "virtual time", format: (value) => `${tick(value)} s` },
  real: { title: "real time", format: duration },
  bytes: { title: "bytes sent", format: bytes },
};

export async function show(main, { name, query }) {
  const path = encoded(name);
  const view = { facts: await get(`/api/runs/${path}`), steps: await get(`/api/history/${path}`), axis: query.get("over") in AXES ? query.get("over") : "steps", charts: new Map() };
  const parts = Object.fromEntries(["head", "tiles", "curves", "traffic", "people", "timeline", "about"].map((part) => [part, el("div")]));
  const axis = segments("Horizontal axis", Object.entries(AXES).map(([key, { title }]) => [key, title]), view.axis, (key) => {
    view.axis = key;
    history.replaceState(null, "", `${location.hash.split("?")[0]}?over=${key}`);
    drawCurves();
  });
  const curves = el("div", { class: "charts" }), people = el("div", { class: "charts kept" });
  put(main, parts.head, parts.tiles, parts.curves, parts.people, parts.timeline, parts.traffic, parts.about);

  const isPrivate = () => Boolean(view.facts.privacy) || (view.steps.epsilon || []).some((e) => e !== null);
  const operator = () => (isPrivate() ? el("p", { class: "operator" }, "The operator's view, not covered by ε: differential privacy covers ", view.facts.covered, ".") : null);

  parts.table = el("div", { class: "clients" });
  put(parts.people, section("Staleness and participation", operator(), people, parts.table)); // its place is kept until it is known
  put(parts.curves, section("Curves", operator(), el("div", { class: "row" }, axis), curves));

  function chart(place, key, make) {
    if (!view.charts.has(key)) {
      const made = new Chart(make());
      view.charts.set(key, made);
      place.append(made.node);
    }
    return view.charts.get(key);
  }

  function xs() {
    const s = view.steps;
    if (view.axis === "virtual") return s.virtual_seconds;
    if (view.axis === "real") return s.real_seconds;
    return view.axis === "bytes" ? totals(s.bytes_up, s.bytes_down) : s.version;
  }

  function drawCurves() {
    const s = view.steps, at = xs(), x = AXES[view.axis];
    const ordered = Object.keys(s.metrics).sort((a, b) => rank(a) - rank(b));
    const measured = { ...Object.fromEntries(ordered.map((key) => [key, s.metrics[key]])), ...(isPrivate() && s.epsilon ? { epsilon: s.epsilon } : {}) };
    for (const [key, values] of Object.entries(measured)) {
      const [px, py] = known(at, values, view.facts.initial_metrics[key]);
      const log = key.includes("loss") && spansDecades(py);
      chart(curves, `m ${key}`, () => ({ title: key, lines: [{ label: key, place: key === "loss" ? 1 : key === "epsilon" ? 3 : 0 }], x, sync: "run" })).set([px, py], { log, x });
    }
    const up = running(s.bytes_up), down = running(s.bytes_down);
    chart(curves, "bytes", () => ({ title: "sent", lines: [{ label: "up", place: 2 }, { label: "down", place: 5 }], x, y: bytes, sync: "run", zero: true })).set([at, up, down], { x });
    if (s.max_staleness.some((n) => n)) chart(curves, "stale", () => ({ title: "staleness", lines: [{ label: "max", place: 4, light: true }, { label: "mean", place: 0 }], x, y: digits, sync: "run", zero: true })).set([at, s.max_staleness, s.staleness], { x });
    chart(curves, "updates", () => ({ title: "updates per server step", lines: [{ label: "updates", place: 6 }], x, y: whole, sync: "run", zero: true })).set([at, s.updates], { x });
  }

  function drawHead() {
    const f = view.facts;
    put(parts.head,
      el("p", { class: "soft small" }, el("a", { href: "#/runs" }, "Runs"), f.study ? [" / ", el("a", { href: `#/compare?${new URLSearchParams([["run", f.study]])}` }, f.study)] : null),
      el("div", { class: "head" }, el("h1", {}, name), state(f.state), el("span", { class: "soft" }, `${f.algorithm} on ${f.task}, ${whole(f.clients)} clients, seed ${f.seed}`), runButtons(f, reload)),
      f.state === "running" ? progress(f.steps, f.rounds) : null,
      f.ending && f.state !== "running" ? el("p", { class: "soft" }, f.ending) : null);
    document.title = `${name} · fedpace`;
  }

  function drawTiles() {
    const f = view.facts, s = view.steps, last = s.version.length - 1;
    const tiles = Object.keys(s.metrics).sort((a, b) => rank(a) - rank(b)).slice(0, 4).map((key) => fact(key, metric(lastOf(s.metrics[key]))));
    const spent = lastOf(s.epsilon || []);
    if (spent !== undefined) tiles.push(fact("ε spent", digits(spent)));
    tiles.push(fact("server steps", `${whole(f.steps)} / ${whole(f.rounds)}`));
    tiles.push(fact("virtual time", seconds(last < 0 ? 0 : s.virtual_seconds[last])));
    tiles.push(fact("sent up", bytes(sum(s.bytes_up))), fact("sent down", bytes(sum(s.bytes_down))));
    tiles.push(fact("real time", duration((f.state === "running" ? null : f.real_seconds) ?? s.real_seconds[last] ?? 0)));
    if (f.state === "running") tiles.push(fact("time left", duration(f.seconds_left) || "…"));
    put(parts.tiles, el("div", { class: "facts" }, tiles));
  }

  async function drawPeople() {
    const found = await get(`/api/clients/${path}`);
    const least = found.staleness.length ? found.staleness.at(-1)[0] : 0;
    const counts = new Map(found.staleness), ages = Array.from({ length: Math.min(least, 60) + 1 }, (_, age) => age);
    const total = sum([...counts.values()]) || 1;
    const share = (value) => `${(100 * value).toFixed(1)} %`;
    chart(people, "hist", () => ({ title: "staleness of updates, in server steps", lines: [{ label: "share", place: 0, bars: true }], x: { format: tick, whole: true }, y: share, zero: true,
      said: (at, xs, [ys]) => (at === null || at === undefined || xs[at] === undefined ? "" : `${share(ys[at])} at ${xs[at]}`) })).set([ages, ages.map((age) => (counts.get(age) || 0) / total)]);
    const ranks = found.participation.map((_, at) => at + 1);
    chart(people, "rank", () => ({ title: "updates used per client, in descending order", lines: [{ label: "updates", place: 2 }], x: { format: tick, whole: true }, y: tick, zero: true,
      said: (at, xs, [ys]) => (at === null || at === undefined || xs[at] === undefined ? `Jain ${view.fairness[0]}  Gini ${view.fairness[1]}` : `${tick(ys[at])} by client ${xs[at]} in this order`) }));
    view.fairness = [found.jain.toFixed(3), found.gini.toFixed(3)];
    view.charts.get("rank").set([ranks, found.participation]);
    parts.clientTable = clientTable(parts.table, found.clients, parts.clientTable);
  }

  function drawTraffic() {
    const lanes = Object.entries(view.facts.traffic);
    if (!lanes.length) return put(parts.traffic);
    const rows = [
      ["frames", (l) => whole(l.frames)], ["payload", (l) => bytes(l.payload_bytes)], ["headers", (l) => bytes(l.header_bytes)], ["control", (l) => bytes(l.control_bytes)],
      ["lazy rule fired", (l) => (l.fired ? `${whole(l.fired)} times, ${(100 * l.firing_rate).toFixed(1)} %` : "")],
      ["compression error", (l) => (l.relative_error ? `${(100 * l.relative_error).toFixed(1)} % of the norm` : "")],
      ["values used, never sent", (l) => (l.phantom ? whole(l.phantom) : "")],
    ].map(([title, of]) => [title, ...lanes.map(([, lane]) => of(lane))]).filter((row) => row.slice(1).some(Boolean));
    const table = el("table", {}, el("thead", {}, el("tr", {}, el("th", {}), lanes.map(([side]) => el("th", { scope: "col", class: "num" }, side)))),
      el("tbody", {}, rows.map(([title, ...cells]) => el("tr", {}, el("th", { scope: "row" }, title), cells.map((cell) => el("td", { class: "num" }, cell))))));
    put(parts.traffic, section("Traffic by direction", operator(), el("div", { class: "card wide" }, table)));
  }

  function drawAbout() {
    const f = view.facts;
    const note = el("textarea", { id: "note", value: f.note, maxLength: 20000, placeholder: "What was this run for?" });
    const tags = el("input", { type: "text", id: "tags", value: f.tags.join(", "), placeholder: "baseline, paper", spellcheck: false });
    const save = el("button", { type: "button", onclick: async () => {
      const wanted = tags.value.split(",").map((tag) => tag.trim()).filter(Boolean);
      const done = await act("PATCH", `/api/runs/${path}`, { note: note.value, tags: wanted });
      if (done) (Object.assign(f, done), (save.textContent = "Saved"), setTimeout(() => (save.textContent = "Save"), 1500));
    } }, "Save");
    const files = [["history.csv", "History, CSV"], ["history.json", "History, JSON"], f.files.model && ["model", "Model, safetensors"], f.files.timeline && ["timeline.csv", "Timeline, CSV"]].filter(Boolean);
    put(parts.about,
      section("Notes and files", el("div", { class: "two" },
        el("div", { class: "card" }, el("h3", {}, el("label", { for: "note" }, "Note")), note, el("h3", { class: "after" }, el("label", { for: "tags" }, "Tags, separated by commas")), el("div", { class: "row" }, tags, save)),
        card("Download", el("div", { class: "row" }, files.map(([kind, title]) => el("a", { class: "button", href: `/api/files/${kind}/${path}`, download: "" }, title)))))),
      section("Configuration", f.command ? copyable(f.command, "the command") : el("p", { class: "soft" }, "Started from Python."),
        el("div", { class: "two" },
          card("Settings", pairs(f.configuration)),
          card("Environment", pairs({ started: when(f.began), compute: f.compute, versions: f.versions, machine: f.machine, ...counters(f.counters) })))));
  }

  async function reload() {
    try {
      view.facts = await get(`/api/runs/${path}`);
      view.steps = await get(`/api/history/${path}`);
      drawAll();
    } catch (error) {
      notice(error.message);
      location.hash = "#/runs";
    }
  }

  function drawAll() {
    drawHead();
    drawTiles();
    drawCurves();
    drawTraffic();
    drawAbout();
    drawPeople().catch((error) => notice(error.message));
    if (view.facts.files.timeline && !view.timeline) (view.timeline = timelineSection(path, operator())), put(parts.timeline, view.timeline.node);
    else if (!view.timeline) put(parts.timeline, section("Client timeline", el("p", { class: "soft" }, view.facts.state === "running" ? "It is written when the run ends." : "It was not recorded: the run is too large, or was not traced.")));
  }

  async function heard(event) {
    if (event.gone) return notice(`${name} was deleted.`), (location.hash = "#/runs");
    const ended = event.run && event.run.state !== view.facts.state;
    if (event.reset || ended) return reload();
    const have = view.steps.version.length ? view.steps.version.at(-1) : 0;
    append(view.steps, event.from === have ? event.steps : await get(`/api/history/${path}?after=${have}`));
    Object.assign(view.facts, event.run);
    drawHead();
    drawTiles();
    drawCurves();
  }

  drawAll();
  let first = true, queue = Promise.resolve();
  const close = stream(`/api/events/run/${path}`, () => (first ? (first = false) : reload()), (event) => (queue = queue.then(() => heard(event)).catch((error) => notice(error.message))));
  const slowly = setInterval(() => view.facts.state === "running" && !document.hidden && drawPeople().catch(() => {}), 5000);
  quiet();
  return () => {
    close();
    clearInterval(slowly);
    for (const each of view.charts.values()) each.destroy();
    view.timeline?.destroy();
    document.title = "fedpace";
  };
}

const rank = (key) => ({ accuracy: 0, loss: 1 })[key] ?? 2;
const sum = (values) => values.reduce((total, value) => total + value, 0);
const lastOf = (values) => values.findLast((value) => value !== null && value !== undefined);

function running(values) {
  let total = 0;
  return values.map((value) => (total += value));
}

const totals = (up, down) => running(up.map((value, at) => value + down[at]));

// Where it was measured; the initial model is at 0.
function known(xs, values, initial) {
  const at = [], found = [];
  if (initial !== undefined) at.push(0), found.push(initial);
  values.forEach((value, place) => {
    if (value !== null && value !== undefined && xs[place] !== null) at.push(xs[place]), found.push(value);
  });
  return [at, found];
}

function append(columns, more) {
  const before = columns.version.length;
  for (const [key, values] of Object.entries(more)) {
    if (key === "metrics") continue;
    if (!columns[key]) columns[key] = new Array(before).fill(null);
    columns[key].push(...values);
  }
  for (const [key, values] of Object.entries(more.metrics)) {
    if (!columns.metrics[key]) columns.metrics[key] = new Array(before).fill(null);
    columns.metrics[key].push(...values);
  }
  for (const values of [...Object.values(columns.metrics), ...(columns.epsilon ? [columns.epsilon] : [])])
    while (values.length < columns.version.length) values.push(null);
}

const pairs = (values) => el("dl", {}, Object.entries(values).filter(([, value]) => value).flatMap(([key, value]) => [el("dt", {}, key), el("dd", {}, String(value))]));
const counters = (known) => Object.fromEntries(Object.entries(known).filter(([, n]) => n).map(([key, n]) => [key.replaceAll("_", " "), whole(n)]));
