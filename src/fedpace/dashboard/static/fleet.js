// Deployed runs: who is online, what each client holds, what is refused, and alarms.
import { get } from "./api.js";
import { Chart } from "./charts.js";
import { el, put } from "./dom.js";
import { ago, bytes, digits, duration, seconds, whole } from "./format.js";
import { fact, link, progress, state } from "./parts.js";
import { stream } from "./stream.js";
import { sorted, Table } from "./table.js";

const OLD = 10; // seconds after which a server that said nothing is taken for gone
const MOST_POINTS = 600;

export async function show(main) {
  const fleets = new Map();
  const list = el("div");
  put(main, el("h1", {}, "Fleet"), list);

  function draw(statuses) {
    if (!statuses.length) return put(list, el("p", { class: "soft empty" }, "No deployed run has reported yet. fedpace serve writes a status every second; it is shown here, and as text for Prometheus at /metrics."));
    for (const [name, fleet] of fleets) if (!statuses.some((status) => status.run === name)) fleet.node.remove(), fleet.destroy(), fleets.delete(name);
    for (const status of [...statuses].reverse()) {
      if (!fleets.has(status.run)) {
        fleets.set(status.run, new FleetCard(status.run));
        if (!list.querySelector(".fleet")) put(list);
        list.append(fleets.get(status.run).node);
      }
      fleets.get(status.run).set(status);
    }
  }

  const fresh = async () => draw(await get("/api/fleet"));
  await fresh();
  const close = stream("/api/events/fleet", fresh, draw);
  const clock = setInterval(() => fleets.forEach((fleet) => fleet.head()), 1000);
  return () => (close(), clearInterval(clock), fleets.forEach((fleet) => fleet.destroy()));
}

class FleetCard {
  constructor(name) {
    this.name = name;
    this.times = [];
    this.rates = [];
    this.online = [];
    [this.top, this.line, this.tiles, this.alarms, this.refused] = [el("div", { class: "head" }), el("div"), el("div", { class: "facts" }), el("div"), el("div")];
    const x = { whole: true, format: (value) => (value === 0 ? "now" : `${duration(-value)} ago`) };
    this.rate = new Chart({ title: "server steps per second", lines: [{ label: "steps", place: 0 }], x, y: digits, zero: true });
    this.presence = new Chart({ title: "clients online", lines: [{ label: "online", place: 2 }], x, y: whole, zero: true });
    const text = (key, title, more = {}) => ({ key, title, class: "c-plain", sort: (c) => c[key], cell: (c) => (c[key] === null ? "" : String(c[key])), ...more });
    const num = (key, title, format = whole) => text(key, title, { align: "right", downFirst: true, cell: (c) => (c[key] === null ? "" : format(c[key])) });
    this.columns = [text("client", "client"), text("state", "state", { cell: (c) => state(c.state) }), num("version", "version"), num("round_trip", "round trip", seconds), num("bytes_up", "up", bytes), num("bytes_down", "down", bytes), num("updates", "updates"), num("refused", "refused"), num("last_seen", "last seen", ago)];
    this.table = new Table(this.columns, { label: `Clients of ${name}`, sort: { key: "client", down: false }, onsort: (sort) => this.order(sort) });
    this.node = el("section", { class: "fleet" }, this.top, this.line, this.alarms, this.tiles, el("div", { class: "charts" }, this.rate.node, this.presence.node), this.refused, el("h3", { class: "after" }, "Clients"), el("div", { class: "clients" }, this.table.node));
  }

  set(status) {
    this.status = status;
    if (this.times.at(-1) !== status.time) {
      this.times.push(status.time);
      this.rates.push(status.step_rate);
      this.online.push(status.online);
      for (const column of [this.times, this.rates, this.online]) if (column.length > MOST_POINTS) column.shift();
    }
    const last = this.times.at(-1), xs = this.times.map((at) => at - last);
    this.rate.set([xs, this.rates]);
    this.presence.set([xs, this.online]);
    this.head();
    put(this.alarms, status.alarms.map((alarm) => el("p", { class: "alarm", role: "alert" }, el("b", {}, alarm.kind.replaceAll("_", " ")), alarm.text)));
    put(this.tiles, fact("online", whole(status.online)), fact("active", whole(status.active)), fact("silent", whole(status.silent)), fact("server steps", status.steps === null ? whole(status.step) : `${whole(status.step)} / ${whole(status.steps)}`), fact("steps per second", digits(status.step_rate)), fact("up", bytes(status.bytes_up)), fact("down", bytes(status.bytes_down)), fact("refused", whole(Object.values(status.refused).reduce((a, b) => a + b, 0))));
    const reasons = Object.entries(status.refused).filter(([, n]) => n);
    put(this.refused, reasons.length ? el("p", { class: "soft small" }, `Refused: ${reasons.map(([reason, n]) => `${reason} ${whole(n)}`).join(", ")}`) : null);
    this.order(this.table.sort);
  }

  head() {
    const silent = Date.now() / 1000 - this.status.time > OLD;
    put(this.top, el("h2", {}, el("a", { href: link(this.name) }, this.name)), state(silent ? "offline" : "running"), el("span", { class: "soft" }, `reported ${ago(this.status.time)}`));
    put(this.line, this.status.steps ? progress(this.status.step, this.status.steps) : null);
  }

  order(sort) {
    if (this.table.sort !== sort) (this.table.sort = sort), this.table.setColumns(this.columns);
    this.table.show(sorted(this.status.clients, this.columns.find((each) => each.key === sort.key), sort.down));
  }

  destroy() {
    this.rate.destroy();
    this.presence.destroy();
    this.table.observer.disconnect();
  }
}
