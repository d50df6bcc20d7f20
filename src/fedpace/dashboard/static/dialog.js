// A question in front of the page: resolves to true if it is answered with its verb.
import { el } from "./dom.js";

export function ask(title, content, verb, { danger = false } = {}) {
  return new Promise((resolve) => {
    const form = el(
      "form",
      { method: "dialog" },
      el("h2", { id: "asked" }, title),
      ...content,
      el("div", { class: "buttons" },
        el("button", { value: "no", type: "submit", formNoValidate: true }, "Cancel"),
        el("button", { value: "yes", type: "submit", class: danger ? "danger" : "primary" }, verb)),
    );
    const dialog = el("dialog", { "aria-labelledby": "asked" }, form);
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && event.target.tagName === "INPUT") {
        event.preventDefault();
        dialog.close("yes");
      }
    });
    document.body.append(dialog);
    dialog.returnValue = "no";
    dialog.showModal();
    (form.querySelector("input, textarea") || form.querySelector(".primary, .danger")).focus();
  });
}

export function tell(title, content) {
  const dialog = el("dialog", { "aria-labelledby": "told" },
    el("form", { method: "dialog" }, el("h2", { id: "told" }, title), ...content,
      el("div", { class: "buttons" }, el("button", { type: "submit", class: "primary" }, "Close"))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
