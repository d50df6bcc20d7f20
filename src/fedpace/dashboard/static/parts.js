// Pieces that several views share.
import { el } from "./dom.js";
import { whole } from "./format.js";

export const card = (title, ...inside) => el("div", { class: "card" }, el("h3", {}, title), ...inside);

export function section(title, ...inside) {
  return el("section", {}, el("h2", {}, title), ...inside);
}

export function state(name) {
  return el("span", { class: `state ${name}` }, el("span", { class: "mark", "aria-hidden": "true" }), name);
}

export function progress(steps, rounds) {
  const share = rounds ? Math.min(1, steps / rounds) : 0;
  const bar = el("span", { class: "bar-of", role: "progressbar", "aria-valuemin": 0, "aria-valuemax": rounds, "aria-valuenow": steps, "aria-label": "server steps" }, el("span", { class: "done" }));
  bar.firstChild.style.width = `${(100 * share).toFixed(1)}%`;
  return bar;
}

export const steps = (run) => `${whole(run.steps)} / ${whole(run.rounds)}`;

export function choice(label, options, value, onchange) {
  const select = el("select", { "aria-label": label, title: label, onchange: () => onchange(select.value) },
    options.map(([key, text]) => el("option", { value: key, selected: key === value }, text)));
  return select;
}

// One of a few, as buttons side by side.
export function segments(label, options, value, onchange) {
  const node = el("div", { class: "segments", role: "radiogroup", "aria-label": label });
  const set = (chosen) => {
    for (const button of node.children) {
      const on = button.dataset.key === chosen;
      button.setAttribute("aria-checked", on);
      button.tabIndex = on ? 0 : -1;
    }
  };
  for (const [key, text] of options) node.append(el("button", { type: "button", role: "radio", data: { key }, onclick: () => (set(key), onchange(key)) }, text));
  node.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const buttons = [...node.children];
    const next = buttons[(buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length];
    next.focus();
    next.click();
    event.preventDefault();
  });
  set(value);
  return node;
}

export function fact(label, value) {
  return el("div", { class: "fact" }, el("span", { class: "soft small" }, label), el("b", {}, value));
}

export const link = (name) => `#/run/${name.split("/").map(encodeURIComponent).join("/")}`;

export function copyable(text, label) {
  const button = el("button", { type: "button", class: "quiet", onclick: async () => {
    await navigator.clipboard?.writeText(text);
    button.textContent = "copied";
    setTimeout(() => (button.textContent = "copy"), 1500);
  }, "aria-label": `Copy ${label}` }, "copy");
  return el("div", { class: "copyable" }, el("pre", { tabindex: "0" }, text), button);
}
