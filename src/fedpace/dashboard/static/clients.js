// One line per client: updates, staleness, transfers, what the model achieves there.
import { put } from "./dom.js";
import { bytes, digits, metric, whole } from "./format.js";
import { sorted, Table } from "./table.js";

const plainly = (key) => (key.startsWith("bytes") || key.endsWith("bytes") ? bytes : key.startsWith("mean") ? digits : key === "accuracy" || key === "loss" ? metric : (v) => (Number.isInteger(v) ? whole(v) : metric(v)));

export function clientTable(place, columns, before) {
  const names = Object.keys(columns);
  const rows = columns.client.map((_, at) => at);
  const made = names.map((key) => ({ key, title: key, align: key === "client" ? "left" : "right", class: "c-plain", sort: (at) => columns[key][at], cell: (at) => (columns[key][at] === null ? "" : key === "client" ? String(columns[key][at]) : plainly(key)(columns[key][at])), downFirst: key !== "client" }));
  const table = before && before.columns.length === made.length ? before : new Table(made, { label: "Clients", sort: { key: "client", down: false }, onsort: (sort) => draw(sort) });
  function draw(sort) {
    table.sort = sort;
    table.setColumns(made);
    table.show(sorted(rows, made.find((each) => each.key === sort.key), sort.down));
  }
  table.onsort = draw;
  draw(table.sort);
  if (table !== before) put(place, table.node);
  return table;
}
