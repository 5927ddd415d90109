// All attempts of one step or evaluation, a square each, and where their time went.

import { ask, runPath } from "/static/api.js";
import { count, duration, EVERY_OUTCOME, h, number, outcomeName, outcomeTag, put } from "/static/dom.js";
import { runTabs } from "/static/views/run.js";
import { runAddress } from "/static/views/runs.js";
import { failureTable, shareBar, stateMap } from "/static/waves.js";

export const STAGES = [["waiting for a sandbox", "c1", "claim"], ["model", "c0", "model"], ["commands", "c3", "sandbox"], ["grading", "c2", "grading"]];

export function waveView({ parts: [where, name], parameters }) {
  const run = { where, name };
  const note = h("p", { class: "sub" });
  const pick = h("select", { "aria-label": "Step or evaluation", onchange: () => { location.hash = `${runAddress(run)}/wave?label=${encodeURIComponent(pick.value)}`; } });
  const more = h("div");
  const map = stateMap({
    order: EVERY_OUTCOME,
    name: outcomeName,
    colour: (state) => `o-${state}`,
    noun: "attempt",
    groupSize,
    open: (cell) => { location.hash = attemptAddress(run, cell.id); },
    tell: (cell) => [outcomeTag(cell.state), " ", h("span", { class: "mono" }, cell.id), ` · reward ${number(cell.reward)}`, cell.seconds ? ` · ${duration(cell.seconds)}` : "", cell.reason ? ` · ${cell.reason}` : ""],
  });
  return {
    title: `${name}: wave`,
    element: h("section", { class: "page" }, h("header", { class: "head" }, h("div", { class: "title" }, h("h1", {}, name)), note), runTabs(run, "wave"), h("div", { class: "bar" }, pick), map.element, more),
    async refresh(topics) {
      if (topics !== null && !topics.includes(`run ${where}/${name}`)) return;
      const wave = await ask(`${runPath(run)}/wave`, { label: parameters.label });
      put(pick, wave.labels.map((label) => h("option", { value: label, selected: label === wave.label }, labelName(label))));
      note.textContent = `${count(wave.cells.length, "attempt")} of ${labelName(wave.label)}, those of one group side by side`;
      map.show([...wave.cells].sort((a, b) => (a.group < b.group ? -1 : a.group > b.group ? 1 : 0)));
      put(more, shareBar("Where the time of its attempts went", STAGES.map(([title, colour, stage]) => [title, colour, wave.stages[stage] ?? 0])), failureTable("Failures of infrastructure, by reason", wave.failures));
    },
  };
}

/** Of groups that are all alike; 1 where they are not. */
function groupSize(cells) {
  const found = new Map();
  for (const cell of cells) found.set(cell.group, (found.get(cell.group) ?? 0) + 1);
  const sizes = new Set(found.values());
  return sizes.size === 1 ? [...sizes][0] : 1;
}

export function attemptAddress(run, id, more = {}) {
  return `${runAddress(run)}/attempt?${new URLSearchParams({ id, ...more })}`;
}

/** `step-000012` and `eval-final-heldout`, for people. */
export function labelName(label) {
  if (label.startsWith("step-")) return `step ${Number(label.slice(5))}`;
  if (label.startsWith("eval-")) return `evaluation ${label.slice(5).replaceAll("-", " ")}`;
  return label.replaceAll("-", " ");
}
