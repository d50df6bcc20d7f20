// The client timeline: a row per client, drawn on a canvas from columns of numbers, with zoom.
import { binary } from "./api.js";
import { colour, el, onScheme, put } from "./dom.js";
import { seconds, tick, whole } from "./format.js";
import { section } from "./parts.js";

const LEFT = 48, BOTTOM = 22, TOP = 4, HIGH = 14, LOW = 3;
const LEGEND = [["download", "download"], ["train", "training"], ["wait", "finished, waiting for a poll"], ["upload", "upload"], ["wasted", "training, unused"]];

export function timelineSection(path, operator) {
  const host = el("div", { class: "card timeline-card" }, el("p", { class: "soft" }, "…"));
  const node = section("Client timeline", operator, host);
  let made = null;
  const seen = new IntersectionObserver(async (entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    seen.disconnect();
    try {
      made = new Timeline(columns(await binary(`/api/timeline/${path}`)));
      put(host, made.node);
      made.fit();
    } catch (error) {
      put(host, el("p", { class: "soft" }, error.message));
    }
  }, { rootMargin: "300px" });
  seen.observe(host);
  return { node, destroy: () => (seen.disconnect(), made?.destroy()) };
}

// A file of safetensors: the length of its head, the head as JSON, then the arrays.
const ARRAYS = { I32: Int32Array, F64: Float64Array, U8: Uint8Array };
export function columns(buffer) {
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  const { __metadata__: meaning, ...arrays } = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const found = Object.fromEntries(Object.entries(arrays).map(([name, { dtype, data_offsets: [from, to] }]) => [name, new ARRAYS[dtype](buffer.slice(8 + length + from, 8 + length + to))]));
  return { ...found, kinds: meaning.kinds.split(","), fates: meaning.fates.split(","), unused: meaning.unused.split(",") };
}

class Timeline {
  constructor(data) {
    this.data = data;
    this.rows = []; // [client, first, last) in the columns, which are sorted by client
    for (let at = 0; at < data.client.length; ) {
      let end = at;
      while (end < data.client.length && data.client[end] === data.client[at]) end++;
      this.rows.push([data.client[at], at, end]);
      at = end;
    }
    this.end = data.end.reduce((most, value) => Math.max(most, value), 0) || 1;
    this.canvas = el("canvas", { tabindex: "0", role: "img", "aria-label": `Client timeline: ${whole(data.client.length)} stretches of ${whole(this.rows.length)} clients over ${seconds(this.end)}. Keys: plus and minus zoom, arrows move, 0 shows all.` });
    this.tip = el("div", { class: "tip", hidden: true });
    this.span = el("span", { class: "soft small" });
    const button = (text, label, act) => el("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
    this.node = el("div", {},
      el("div", { class: "row" }, button("+", "Zoom in", () => this.zoom(0.5)), button("−", "Zoom out", () => this.zoom(2)), button("All", "Show all", () => this.all()), this.span, el("span", { class: "soft small push" }, "drag to move, Ctrl and wheel to zoom")),
      el("div", { class: "timeline" }, this.canvas, this.tip),
      el("ul", { class: "legend" }, LEGEND.map(([kind, text]) => el("li", {}, el("span", { class: `dot ${kind}` }), text))));
    this.all(false);
    this.listen();
    this.observer = new ResizeObserver(() => this.fit());
    this.observer.observe(this.canvas);
    this.forget = onScheme(() => this.draw());
  }

  all(draw = true) {
    [this.from, this.to, this.top] = [0, this.end, 0];
    if (draw) this.draw();
  }

  fit() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width) return;
    [this.width, this.height] = [width, height];
    this.canvas.width = width * devicePixelRatio;
    this.canvas.height = height * devicePixelRatio;
    this.draw();
  }

  get row() {
    return Math.max(LOW, Math.min(HIGH, (this.height - BOTTOM - TOP) / this.rows.length));
  }

  zoom(factor, middle = (this.from + this.to) / 2) {
    const width = Math.min(this.end, Math.max(this.end / 1e6, (this.to - this.from) * factor));
    const share = (middle - this.from) / (this.to - this.from);
    this.move(middle - share * width, width);
  }

  move(from, width = this.to - this.from, top = this.top) {
    this.from = Math.max(0, Math.min(this.end - width, from));
    this.to = this.from + width;
    const fitting = Math.floor((this.height - BOTTOM - TOP) / this.row);
    this.top = Math.max(0, Math.min(this.rows.length - fitting, top));
    this.draw();
  }

  draw() {
    if (!this.width) return;
    const context = this.canvas.getContext("2d");
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    const first = Math.floor(this.top), last = Math.min(this.rows.length, first + Math.ceil((this.height - BOTTOM - TOP) / this.row));
    const shades = this.shades();
    this.axes(context, first, last);
    this.drawn = 0;
    for (let at = first; at < last; at++) this.line(context, at, TOP + (at - first) * this.row, shades);
    this.span.textContent = `${seconds(this.from)} to ${seconds(this.to)}, clients ${this.rows[first]?.[0] ?? 0} to ${this.rows[last - 1]?.[0] ?? 0} of ${whole(this.rows.length)}`;
    Object.assign(this.canvas.dataset, { from: this.from, to: this.to, drawn: this.drawn, stretches: this.data.client.length });
  }

  // What is narrower than a pixel shares it with what came before.
  line(context, place, y, shades) {
    const { start, end, kind, fate } = this.data, [, first, last] = this.rows[place];
    const scale = (this.width - LEFT) / (this.to - this.from), height = Math.max(1, this.row - (this.row > 6 ? 2 : 1));
    let painted = -1;
    for (let at = this.search(first, last); at < last && start[at] < this.to; at++) {
      const right = Math.min(this.width, LEFT + (end[at] - this.from) * scale);
      if (right <= painted) continue;
      const left = Math.max(LEFT, painted, LEFT + (start[at] - this.from) * scale);
      context.fillStyle = shades[kind[at]][fate[at]] || shades[kind[at]].other;
      context.fillRect(left, y, Math.max(0.5, right - left), height);
      painted = Math.max(left + 0.5, Math.min(right, Math.floor(right) === Math.floor(left) ? Math.floor(left) + 1 : right));
      this.drawn++;
    }
  }

  // The first stretch of a row that is not over before the window begins.
  search(first, last) {
    const { end } = this.data;
    while (first < last) {
      const middle = (first + last) >> 1;
      if (end[middle] < this.from) first = middle + 1;
      else last = middle;
    }
    return first;
  }

  shades() {
    const { kinds, fates, unused } = this.data;
    const own = { download: colour("s5"), train: colour("s0"), wait: colour("s4"), upload: colour("s2") };
    return kinds.map((kind) => ({ other: own[kind] || colour("line"), ...(kind === "train" ? Object.fromEntries(fates.map((fate, at) => [at, unused.includes(fate) ? colour("wasted") : own.train])) : {}) }));
  }

  axes(context, first, last) {
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = colour("soft");
    context.strokeStyle = colour("line");
    context.lineWidth = 1;
    context.textBaseline = "alphabetic";
    context.textAlign = "center";
    const step = nice((this.to - this.from) / Math.max(2, (this.width - LEFT) / 110));
    for (let at = Math.ceil(this.from / step) * step; at <= this.to; at += step) {
      const x = Math.round(LEFT + ((at - this.from) / (this.to - this.from)) * (this.width - LEFT)) + 0.5;
      context.beginPath();
      context.moveTo(x, TOP);
      context.lineTo(x, this.height - BOTTOM);
      context.stroke();
      if (x < this.width - 20) context.fillText(`${tick(Number(at.toPrecision(8)))} s`, x, this.height - 6);
    }
    context.textAlign = "right";
    const every = Math.ceil(12 / this.row);
    for (let at = first; at < last; at += every) context.fillText(String(this.rows[at][0]), LEFT - 8, TOP + (at - first) * this.row + Math.max(8, this.row - 3));
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    return { x, y, time: this.from + ((x - LEFT) / (this.width - LEFT)) * (this.to - this.from), row: Math.floor(this.top) + Math.floor((y - TOP) / this.row) };
  }

  listen() {
    let held = null;
    this.canvas.addEventListener("pointerdown", (event) => ((held = { ...this.at(event), from: this.from, top: this.top }), this.canvas.setPointerCapture(event.pointerId)));
    this.canvas.addEventListener("pointerup", () => (held = null));
    this.canvas.addEventListener("pointerleave", () => (this.tip.hidden = true));
    this.canvas.addEventListener("pointermove", (event) => {
      const here = this.at(event);
      if (!held) return this.say(here);
      const scale = (this.to - this.from) / (this.width - LEFT);
      this.move(held.from - (here.x - held.x) * scale, undefined, held.top - (here.y - held.y) / this.row);
    });
    this.canvas.addEventListener("dblclick", (event) => this.zoom(0.4, this.at(event).time));
    this.canvas.addEventListener("wheel", (event) => {
      if (event.shiftKey) this.move(this.from, undefined, this.top + Math.sign(event.deltaY || event.deltaX) * 3);
      else if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(event.deltaY / 300), this.at(event).time);
      else return;
      event.preventDefault();
    }, { passive: false });
    this.canvas.addEventListener("keydown", (event) => {
      const width = this.to - this.from;
      const keys = { "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), 0: () => this.all(), ArrowLeft: () => this.move(this.from - width / 5), ArrowRight: () => this.move(this.from + width / 5), ArrowUp: () => this.move(this.from, undefined, this.top - 3), ArrowDown: () => this.move(this.from, undefined, this.top + 3) };
      if (!(event.key in keys)) return;
      keys[event.key]();
      event.preventDefault();
    });
  }

  say({ x, y, time, row }) {
    const found = x > LEFT && this.rows[row] ? this.find(row, time) : -1;
    this.tip.hidden = found < 0;
    if (found < 0) return;
    const { start, end, kind, fate, version, kinds, fates } = this.data;
    const outcome = kinds[kind[found]] === "train" ? `, ${fates[fate[found]] || "pending"}` : "";
    this.tip.textContent = `client ${this.rows[row][0]}: ${kinds[kind[found]]}, ${tick(start[found])} to ${tick(end[found])} s, model ${version[found]}${outcome}`;
    this.tip.style.left = `${Math.min(x + 12, this.width - this.tip.offsetWidth - 4)}px`;
    this.tip.style.top = `${Math.max(0, y - 30)}px`;
  }

  find(row, time) {
    const { start, end } = this.data, [, first, last] = this.rows[row], near = (this.to - this.from) / (this.width - LEFT);
    for (let at = this.search(first, last); at < last && start[at] <= time + near; at++) if (end[at] >= time - near) return at;
    return -1;
  }

  destroy() {
    this.observer.disconnect();
    this.forget();
  }
}

function nice(step) {
  const power = 10 ** Math.floor(Math.log10(step));
  return power * ([1, 2, 5, 10].find((each) => each * power >= step) || 10);
}
