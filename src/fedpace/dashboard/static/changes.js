// What can be done to a run: each is asked about first; the server writes it down.
import { act, encoded } from "./api.js";
import { ask } from "./dialog.js";
import { el } from "./dom.js";

const RESUMABLE = ["interrupted", "died", "failed", "stopped"];

export function runButtons(run, done) {
  const post = (verb, more = {}) => act("POST", `/api/actions/${verb}`, { name: run.name, ...more });
  const button = (title, onclick, kind = "") => el("button", { type: "button", class: kind, onclick }, title);
  const buttons = [];
  if (run.state === "running") buttons.push(button("Stop", async () => (await ask("Stop this run?", [el("p", {}, `${run.name} ends after the current event and writes a checkpoint. It can be resumed.`)], "Stop")) && post("stop")));
  if (RESUMABLE.includes(run.state)) buttons.push(button("Resume", async () => (await ask("Resume this run?", [el("p", {}, `${run.name} continues from its last checkpoint, on the machine of this server.`)], "Resume")) && (await post("resume")) && setTimeout(done, 1500), "primary"));
  if (run.state === "done") buttons.push(button("Extend", async () => {
    const rounds = el("input", { type: "number", id: "rounds", min: run.rounds + 1, value: 2 * run.rounds });
    const said = [el("p", {}, `${run.name} is run again from the start with more server steps, and equals a run of that length.`), el("label", { for: "rounds" }, "Total server steps"), rounds];
    if (await ask("Extend this run?", said, "Extend")) (await post("extend", { rounds: Number(rounds.value) })) && setTimeout(done, 1500);
  }));
  if (run.state !== "running") buttons.push(button("Delete", async () => {
    if (!(await ask("Delete this run?", [el("p", {}, `${run.name}, its history, its model and its checkpoints are deleted. This cannot be undone.`)], "Delete", { danger: true }))) return;
    if (await act("DELETE", `/api/runs/${encoded(run.name)}`)) location.hash = "#/runs";
  }, "danger"));
  return el("div", { class: "buttons" }, buttons);
}
