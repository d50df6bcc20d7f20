// Lines over an axis, drawn by uPlot. A chart is made once and given new data; it keeps its place and its size.
import { colour, el, onScheme, put, series } from "./dom.js";
import { metric, tick, whole } from "./format.js";

const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const WHOLE = [1, 2, 5].flatMap((n) => [0, 1, 2, 3, 4, 5, 6, 7, 8].map((power) => n * 10 ** power)).sort((a, b) => a - b);
const DECADES = 20; // ratio from which a logarithmic axis shows more, as on the report page

// lines: {label, place (colour), thin, dash, bars}; bands: [[high, low, place]] as numbers of lines
export class Chart {
  constructor({ title, lines, bands = [], x, y = metric, log = false, goal = null, sync = null, tall = false, said = null, zero = false }) {
    Object.assign(this, { lines, bands, x, y, log, goal, sync, said, zero, data: [[], ...lines.map(() => [])] });
    this.readout = el("b");
    this.title = el("span", {}, title);
    this.host = el("div", { class: `plot${tall ? " tall" : ""}`, role: "img", "aria-label": title });
    this.node = el("div", { class: "card chart-card" }, el("h3", {}, this.title, this.readout), this.host);
    this.observer = new ResizeObserver(() => this.fit());
    this.observer.observe(this.host);
    this.forget = onScheme(() => this.build());
  }

  set(data, { log = this.log, goal = this.goal, x = this.x } = {}) {
    const again = !this.plot || log !== this.log || goal !== this.goal || x !== this.x || data.length !== this.data.length;
    Object.assign(this, { data, log, goal, x });
    this.node.dataset.points = data[0].length;
    if (again) this.build();
    else this.plot.setData(data);
    this.say(null);
  }

  fit() {
    const { clientWidth: width, clientHeight: height } = this.host;
    if (!this.plot) this.build();
    else if (width && (width !== this.plot.width || height !== this.plot.height)) this.plot.setSize({ width, height });
  }

  build() {
    this.plot?.destroy();
    this.plot = null;
    put(this.host);
    const { clientWidth: width, clientHeight: height } = this.host;
    if (!width) return;
    if (!this.data[0].length) return put(this.host, el("p", { class: "soft small" }, "nothing measured yet"));
    this.plot = new uPlot(this.options(width, height), this.data, this.host);
  }

  options(width, height) {
    const soft = colour("soft"), grid = { stroke: colour("line"), width: 1 }, ticks = { show: false };
    const axis = { stroke: soft, font: FONT, grid, ticks, gap: 4 };
    return {
      width,
      height,
      legend: { show: false },
      padding: [8, 20, 0, 0],
      cursor: { sync: this.sync ? { key: this.sync, setSeries: false } : undefined, points: { size: 7 }, drag: { x: true, y: false } },
      scales: {
        x: { time: false, range: (_, low, high) => this.reach(low, high) },
        y: { distr: this.log ? 3 : 1, range: (_, low, high) => (this.log ? [low * 0.9, high * 1.1] : this.span(low, high)) },
      },
      axes: [
        { ...axis, size: 30, grid: { show: false }, space: 62, ...(this.x.whole ? { incrs: WHOLE } : {}), values: (_, at) => at.map((v) => (v === null ? "" : this.x.format(v))) },
        { ...axis, size: 54, ...(this.log ? { splits: (_, __, low, high) => decades(low, high) } : this.y === whole ? { incrs: WHOLE } : {}), values: (_, at) => at.map((v) => (v === null ? "" : (this.y === metric ? tick : this.y)(v))) },
      ],
      series: [{}, ...this.lines.map((line) => this.style(line))],
      bands: this.bands.map(([high, low, place]) => ({ series: [high, low], fill: faded(series(place), 0.16) })),
      hooks: { setCursor: [(plot) => this.say(plot.cursor.idx)], draw: [(plot) => this.drawGoal(plot)] },
    };
  }

  reach(low, high) {
    const [xs] = this.data;
    if (xs.length === 1) return [xs[0] - 0.5, xs[0] + 0.5];
    return this.lines[0].bars ? [low - 0.5, high + 0.5] : [low, high];
  }

  span(low, high) {
    if (low === null) return [0, 1];
    if (this.goal !== null) (low = Math.min(low, this.goal)), (high = Math.max(high, this.goal));
    if (this.zero) return [0, high > 0 ? high * 1.05 : 1];
    const room = (high - low || Math.abs(high) || 1) * 0.06;
    const floor = low >= 0 && low - room < 0 ? 0 : low - room;
    return [floor, high <= 1 && high + room > 1 && low >= 0 ? 1 : high + room];
  }

  style(line) {
    const stroke = line.thin || line.light ? faded(series(line.place), line.light ? 0.5 : 0.35) : line.faint ? "transparent" : series(line.place);
    const style = { label: line.label, stroke, width: line.thin || line.light ? 1 : line.faint ? 0 : 2, spanGaps: true };
    if (line.dash) style.dash = [5, 4];
    if (line.bars) Object.assign(style, { paths: uPlot.paths.bars({ size: [0.8, 40], align: 0 }), fill: faded(series(line.place), 0.75), width: 0 });
    style.points = { show: (plot) => !line.faint && !line.bars && plot.data[0].length < 2, size: 6 };
    return style;
  }

  drawGoal(plot) {
    if (this.goal === null) return;
    const { ctx, bbox } = plot, at = plot.valToPos(this.goal, "y", true);
    if (at < bbox.top || at > bbox.top + bbox.height) return;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour("soft");
    ctx.setLineDash([5 * devicePixelRatio, 4 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, at);
    ctx.lineTo(bbox.left + bbox.width, at);
    ctx.stroke();
    ctx.font = `${11 * devicePixelRatio}px system-ui`;
    ctx.textAlign = "left";
    ctx.fillText(`target ${tick(this.goal)}`, bbox.left + 6, at - 5);
    ctx.restore();
  }

  // At the pointer, or at the end.
  say(at) {
    const [xs, ...columns] = this.data;
    if (this.said) return (this.readout.textContent = this.said(at, xs, columns));
    const known = (column) => {
      let place = at ?? column.length - 1;
      while (place >= 0 && (column[place] === null || column[place] === undefined)) place--;
      return place;
    };
    const parts = this.lines.map((line, n) => [line, columns[n][known(columns[n])]]).filter(([line, value]) => !line.faint && !line.thin && value !== undefined && value !== null);
    const named = parts.slice(0, 4).map(([line, value]) => (this.lines.length > 1 ? `${line.label} ` : "") + this.y(value)).join(" · ");
    this.readout.textContent = at === null || at === undefined || xs[at] === undefined ? named : `${named}  at ${this.x.format(xs[at])}`;
  }

  destroy() {
    this.observer.disconnect();
    this.forget();
    this.plot?.destroy();
  }
}

// 1, 2 and 5 times powers of ten; over many decades the powers alone.
function decades(low, high) {
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
  const parts = last - first > 3 ? [1] : [1, 2, 5];
  return Array.from({ length: last - first + 1 }, (_, at) => parts.map((part) => part * 10 ** (first + at))).flat().filter((at) => at >= low && at <= high);
}

export function faded(text, share) {
  return `color-mix(in srgb, ${text} ${Math.round(share * 100)}%, transparent)`;
}

export function spansDecades(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) if (value !== null) (low = Math.min(low, value)), (high = Math.max(high, value));
  return low > 0 && high / low > DECADES;
}
