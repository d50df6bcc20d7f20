// Elements from values. Whatever comes from a run is put in as text, never as markup.
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else if (name === "data") Object.assign(node.dataset, value);
    else if (name in node && !name.startsWith("aria") && name !== "list" && name !== "for") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

export const put = (node, ...children) => node.replaceChildren(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export const series = (place) => colour(`s${place % 7}`);

// Calls `draw` again when light becomes dark.
export function onScheme(draw) {
  const query = matchMedia("(prefers-color-scheme: dark)");
  query.addEventListener("change", draw);
  return () => query.removeEventListener("change", draw);
}

export function notice(text) {
  const box = document.getElementById("notice");
  put(box, el("span", {}, text), el("button", { type: "button", class: "quiet", "aria-label": "Close", onclick: () => (box.hidden = true) }, "×"));
  box.hidden = false;
}
