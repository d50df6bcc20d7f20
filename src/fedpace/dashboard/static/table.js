// A table of any length: only the rows in sight are in the document, all of the same height.
import { el, put } from "./dom.js";

const ROW = 38;
const MORE = 8; // rows drawn beyond those in sight

// columns: {key, title, align, cell(row) -> node or text, sort(row) -> comparable, class, width}
export class Table {
  constructor(columns, { label, key, open, sort, onsort, select, rowClass }) {
    Object.assign(this, { columns, key, open, sort, onsort, select, rowClass, rows: [], focused: 0, drawn: "" });
    this.body = el("tbody");
    this.head = el("tr");
    this.groups = el("colgroup");
    this.table = el("table", { class: "rows" }, el("caption", { class: "unseen" }, label), this.groups, el("thead", {}, this.head), this.body);
    this.node = el("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": label }, this.table);
    this.node.addEventListener("scroll", () => this.draw());
    this.node.addEventListener("keydown", (event) => this.pressed(event));
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.node);
    this.titles();
  }

  setColumns(columns) {
    this.columns = columns;
    this.drawn = "";
    this.titles();
  }

  titles() {
    put(this.groups, this.columns.map((c) => el("col", { class: c.class, "data-key": c.key })));
    put(this.head, this.columns.map((c) => {
      const on = this.sort?.key === c.key;
      const sorted = on ? (this.sort.down ? "descending" : "ascending") : c.sort ? "none" : undefined;
      const inner = c.sort
        ? el("button", { type: "button", class: "sort", onclick: () => this.onsort({ key: c.key, down: on ? !this.sort.down : Boolean(c.downFirst) }) }, c.title, el("span", { class: "arrow", "aria-hidden": "true" }, on ? (this.sort.down ? "↓" : "↑") : ""))
        : c.title;
      return el("th", { scope: "col", class: `${c.class || ""} ${c.align === "right" ? "num" : ""}`, "aria-sort": sorted }, inner);
    }));
  }

  show(rows) {
    this.rows = rows;
    this.focused = Math.min(this.focused, Math.max(0, rows.length - 1));
    this.table.setAttribute("aria-rowcount", rows.length);
    this.drawn = "";
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.node.scrollTop / ROW) - MORE);
    const count = Math.ceil((this.node.clientHeight || 600) / ROW) + 2 * MORE;
    const last = Math.min(this.rows.length, first + count);
    const mark = `${first} ${last} ${this.focused}`;
    if (this.drawn === mark) return;
    this.drawn = mark;
    const lines = [];
    for (let at = first; at < last; at++) lines.push(this.line(this.rows[at], at));
    put(this.body, gap(first, this.columns.length), lines, gap(this.rows.length - last, this.columns.length));
  }

  line(row, at) {
    const cells = this.columns.map((c) => el("td", { class: `${c.class || ""} ${c.align === "right" ? "num" : ""}` }, c.cell(row) ?? ""));
    const line = el("tr", { "aria-rowindex": at + 1, class: `${at === this.focused ? "at" : ""} ${this.rowClass?.(row) || ""}` }, cells);
    if (this.open) line.addEventListener("click", (event) => event.target.closest("a, input, button, label") || (getSelection().isCollapsed && this.open(row)));
    return line;
  }

  pressed(event) {
    const page = Math.max(1, Math.floor(this.node.clientHeight / ROW) - 2);
    const moves = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: page, PageUp: -page, Home: -1e9, End: 1e9 };
    if (event.key in moves) {
      this.focused = Math.max(0, Math.min(this.rows.length - 1, this.focused + moves[event.key]));
      const top = this.focused * ROW;
      const room = this.node.clientHeight - 2 * ROW;
      if (top < this.node.scrollTop) this.node.scrollTop = top;
      else if (top > this.node.scrollTop + room) this.node.scrollTop = top - room;
      this.draw();
    } else if (event.key === "Enter" && this.open && event.target === this.node) this.open(this.rows[this.focused]);
    else if (event.key === " " && this.select && event.target === this.node) this.select(this.rows[this.focused]);
    else return;
    event.preventDefault();
  }
}

function gap(rows, columns) {
  return rows > 0 ? el("tr", { class: "gap", "aria-hidden": "true" }, sized(el("td", { colSpan: columns }), rows * ROW)) : null;
}

function sized(node, height) {
  node.style.height = `${height}px`;
  return node;
}

// Rows in the order of a column; what has no value comes last whichever way it goes.
export function sorted(rows, column, down) {
  if (!column?.sort) return rows;
  const sign = down ? -1 : 1;
  const missing = (value) => value === null || value === undefined || value === "";
  return rows
    .map((row) => [column.sort(row), row])
    .sort(([a], [b]) => (missing(a) ? (missing(b) ? 0 : 1) : missing(b) ? -1 : sign * (a < b ? -1 : a > b ? 1 : 0)))
    .map(([, row]) => row);
}

// A small table, all of it in the document; cells are text.
export function plain(header, rows, align = "", caption = "") {
  const side = (at) => (align[at] === "r" ? "num" : "");
  return el("div", { class: "wide" },
    el("table", {},
      el("thead", {}, el("tr", {}, header.map((title, at) => el("th", { scope: "col", class: side(at) }, title)))),
      el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, at) => (at ? el("td", { class: side(at) }, cell) : el("th", { scope: "row" }, cell))))))),
    caption ? caption.split("\n").map((line) => el("p", { class: "soft small" }, line)) : null);
}
