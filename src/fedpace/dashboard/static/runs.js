// All runs: search, filter, sort, select; those under way move while one looks.
import { act, encoded, get } from "./api.js";
import { ask } from "./dialog.js";
import { el, put } from "./dom.js";
import { duration, metric as shown, when } from "./format.js";
import { choice, link, progress, state, steps } from "./parts.js";
import { stream } from "./stream.js";
import { sorted, Table } from "./table.js";

const chosen = new Set(); // outlives the view: a look at one run does not lose the selection

// A long name gives way in its front: runs of a study differ at the end.
const whole = (name) => [el("span", { class: "front" }, name.slice(0, -12)), el("span", {}, name.slice(-12))];

export function show(main, { query }) {
  const runs = new Map();
  const filters = { q: "", algorithm: "", task: "", state: "", tag: "", metric: "", sort: "began", down: "1", ...Object.fromEntries(query) };
  const search = el("input", { type: "search", id: "search", placeholder: "Search names, settings, tags", "aria-label": "Search runs", value: filters.q, oninput: () => set({ q: search.value }) });
  const selects = el("div", { class: "filters" });
  const count = el("p", { class: "soft count", role: "status" }, "…");
  const picked = el("div", { class: "picked", hidden: true });
  const table = new Table(columns(), {
    label: "Runs",
    open: (run) => (location.hash = link(run.name)),
    select: toggle,
    sort: { key: filters.sort, down: Boolean(filters.down) },
    onsort: ({ key, down }) => set({ sort: key, down: down ? "1" : "" }),
    rowClass: (run) => (chosen.has(run.name) ? "chosen" : ""),
  });
  put(main, el("div", { class: "tools" }, el("h1", { class: "unseen" }, "Runs"), search, selects, count), table.node, picked);
  main.className = "full";

  function columns() {
    const metrics = filters.metric ? [filters.metric] : ["accuracy", "loss"];
    const text = (key, title, more = {}) => ({ key, title, cell: (run) => run[key], sort: (run) => String(run[key]).toLowerCase(), class: `c-${key}`, ...more });
    return [
      { key: "select", title: "", class: "c-select", cell: (run) => el("input", { type: "checkbox", "aria-label": `Select ${run.name}`, checked: chosen.has(run.name), onchange: () => toggle(run) }) },
      text("name", "name", { cell: (run) => el("a", { href: link(run.name), title: run.settings ? `${run.name}\n${run.settings}` : run.name }, whole(run.name)) }),
      text("algorithm", "algorithm"),
      text("task", "task"),
      { key: "seed", title: "seed", align: "right", class: "c-seed", cell: (run) => String(run.seed), sort: (run) => run.seed },
      { key: "steps", title: "steps", align: "right", class: "c-steps", cell: (run) => [el("span", {}, steps(run)), run.state === "running" ? progress(run.steps, run.rounds) : null].filter(Boolean), sort: (run) => run.steps, downFirst: true },
      ...metrics.map((name, at) => ({ key: `metric ${name}`, title: name, align: "right", class: at ? "c-second" : "c-metric", cell: (run) => shown(run.metrics[name]), sort: (run) => run.metrics[name], downFirst: at === 0 })),
      text("state", "state", { cell: (run) => state(run.state) }),
      { key: "left", title: "time left", align: "right", class: "c-left", cell: (run) => duration(run.seconds_left), sort: (run) => run.seconds_left },
      { key: "began", title: "started", class: "c-began", cell: (run) => when(run.began), sort: (run) => run.began, downFirst: true },
      { key: "tags", title: "tags", class: "c-tags", cell: (run) => run.tags.map((tag) => el("span", { class: "tag" }, tag)), sort: (run) => run.tags.join() },
    ];
  }

  function set(changed) {
    Object.assign(filters, changed);
    const kept = Object.entries(filters).filter(([key, value]) => value && !(key === "sort" && value === "began") && !(key === "down" && value === "1"));
    if (!filters.down) kept.push(["down", ""]);
    history.replaceState(null, "", `#/runs${kept.length ? "?" + new URLSearchParams(kept) : ""}`);
    table.sort = { key: filters.sort, down: Boolean(filters.down) };
    table.setColumns(columns());
    draw();
  }

  function toggle(run) {
    chosen.has(run.name) ? chosen.delete(run.name) : chosen.add(run.name);
    draw();
  }

  function matches(run) {
    const words = filters.q.toLowerCase().split(/\s+/).filter(Boolean);
    const text = `${run.name} ${run.algorithm} ${run.settings} ${run.task} ${run.state} ${run.tags.join(" ")}`.toLowerCase();
    return words.every((word) => text.includes(word))
      && ["algorithm", "task", "state"].every((key) => !filters[key] || run[key] === filters[key])
      && (!filters.tag || run.tags.includes(filters.tag))
      && (!filters.metric || filters.metric in run.metrics);
  }

  function draw() {
    const every = [...runs.values()];
    const column = table.columns.find((each) => each.key === filters.sort);
    const rows = sorted(every.filter(matches), column, Boolean(filters.down));
    table.show(rows);
    const active = every.filter((run) => run.state === "running").length;
    count.textContent = rows.length === every.length ? `${every.length.toLocaleString("en-US")} runs` : `${rows.length.toLocaleString("en-US")} of ${every.length.toLocaleString("en-US")} runs`;
    if (active) count.textContent += `, ${active} running`;
    drawFilters(every);
    drawPicked();
  }

  function drawFilters(every) {
    const unique = (of) => [...new Set(every.flatMap(of))].sort();
    const lists = { algorithm: unique((r) => r.algorithm), task: unique((r) => r.task), state: unique((r) => r.state), metric: unique((r) => Object.keys(r.metrics)), tag: unique((r) => r.tags) };
    const mark = JSON.stringify([lists, filters]);
    if (selects.dataset.mark === mark || selects.contains(document.activeElement)) return;
    selects.dataset.mark = mark;
    put(selects, Object.entries(lists).map(([key, values]) => choice(key, [["", `any ${key}`], ...values.map((v) => [v, v])], filters[key], (value) => set({ [key]: value }))));
  }

  function drawPicked() {
    const names = [...chosen].filter((name) => runs.has(name));
    picked.hidden = names.length === 0;
    const asked = new URLSearchParams(names.map((name) => ["run", name]));
    put(picked, el("b", {}, `${names.length} selected`),
      el("a", { class: "button primary", href: `#/compare?${asked}` }, "Compare"),
      el("a", { class: "button", href: `#/sweep?${asked}` }, "Sweep"),
      el("button", { type: "button", class: "danger", onclick: () => deleteAll(names) }, "Delete"),
      el("button", { type: "button", onclick: () => (chosen.clear(), draw()) }, "Clear"));
  }

  async function deleteAll(names) {
    const list = el("p", { class: "soft small" }, names.slice(0, 8).join(", ") + (names.length > 8 ? ` and ${names.length - 8} more` : ""));
    const said = [el("p", {}, `${names.length} runs, their histories, models and checkpoints are deleted. This cannot be undone.`), list];
    if (!(await ask("Delete these runs?", said, "Delete", { danger: true }))) return;
    for (const name of names) if (!(await act("DELETE", `/api/runs/${encoded(name)}`))) break;
    chosen.clear();
    fresh();
  }

  async function fresh() {
    if (!runs.size && !query.size) paint(await get("/api/runs?newest=60")); // the first screen does not wait for thousands
    paint(await get("/api/runs"));
  }

  function paint(listed) {
    runs.clear();
    for (const run of listed) runs.set(run.name, run);
    draw();
    requestAnimationFrame(() => performance.mark("rows painted"));
  }

  const pressed = (event) => {
    if (event.target.closest("input, textarea, select, dialog") || event.ctrlKey || event.metaKey) return;
    if (event.key === "/") search.focus(), event.preventDefault();
    else if (event.key === "c" && chosen.size) picked.querySelector("a").click();
    else if (["ArrowDown", "ArrowUp", "j", "k"].includes(event.key) && !table.node.contains(event.target)) table.node.focus(), table.pressed(event);
  };
  document.addEventListener("keydown", pressed);
  fresh().catch((error) => put(count, error.message));
  let first = true;
  const close = stream("/api/events/runs", () => (first ? (first = false) : fresh()), ({ runs: changed, gone }) => {
    for (const run of changed) runs.set(run.name, run);
    for (const name of gone) runs.delete(name), chosen.delete(name);
    draw();
  });
  return () => (close(), document.removeEventListener("keydown", pressed), table.observer.disconnect(), (main.className = ""));
}
