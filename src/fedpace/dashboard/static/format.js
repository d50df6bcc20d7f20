// Numbers as people read them; the same units as on the command line.
const UNITS = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]];

export function bytes(count) {
  if (count === null || count === undefined) return "";
  for (const [size, name] of UNITS) if (count >= size) return `${digits(count / size)} ${name}`;
  return `${Math.round(count)} B`;
}

export function digits(value) {
  if (value > 0 && value < 0.1) return value.toPrecision(2);
  return value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0);
}

export function seconds(value) {
  if (value === null || value === undefined) return "";
  return value >= 1000 ? `${whole(value)} s` : `${digits(value)} s`;
}

// Real time, which people read in minutes and hours.
export function duration(value) {
  if (value === null || value === undefined) return "";
  if (value < 60) return `${Math.round(value)} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min ${String(Math.round(value % 60)).padStart(2, "0")} s`;
  return `${Math.floor(value / 3600)} h ${String(Math.floor((value % 3600) / 60)).padStart(2, "0")} min`;
}

export const whole = (value) => Math.round(value).toLocaleString("en-US");

export function metric(value) {
  if (value === null || value === undefined) return "";
  const size = Math.abs(value);
  return size === 0 || (size >= 1e-3 && size < 1e4) ? value.toFixed(4) : value.toExponential(2);
}

export function tick(value) {
  if (value === null || value === undefined) return "";
  const size = Math.abs(value);
  if (size >= 1e6) return `${trimmed(value / 1e6)}M`;
  if (size >= 1e4) return `${trimmed(value / 1e3)}k`;
  return size !== 0 && size < 1e-3 ? value.toExponential(0) : String(Number(value.toPrecision(4)));
}

const trimmed = (value) => String(Number(value.toPrecision(3)));

export function when(text) {
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) return "";
  const two = (n) => String(n).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}`;
}

export function ago(epoch) {
  const past = Date.now() / 1000 - epoch;
  return past < 5 ? "now" : `${duration(past)} ago`;
}
