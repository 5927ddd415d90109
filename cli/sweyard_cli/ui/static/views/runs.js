// All runs: state, step, time left, reward.

import { ask } from "/static/api.js";
import { sparkline } from "/static/charts.js";
import { count, duration, h, number, percent, put } from "/static/dom.js";

export function runsView() {
  const list = h("div");
  const note = h("p", { class: "sub" });
  let chosen = -1;
  const rows = () => [...list.querySelectorAll("tbody tr")];

  function choose(by) {
    const all = rows();
    if (!all.length) return;
    chosen = Math.max(0, Math.min(all.length - 1, chosen + by));
    all[chosen].querySelector("a").focus();
  }

  return {
    title: "Runs",
    element: h("section", { class: "page" }, h("header", { class: "head" }, h("h1", {}, "Runs"), note), list),
    keys: { j: ["next run", () => choose(1)], k: ["run before", () => choose(-1)] },
    async refresh() {
      const runs = await ask("runs");
      const focused = document.activeElement?.getAttribute("href");
      note.textContent = `${count(runs.length, "run")}, ${runs.filter((run) => !FINISHED.has(run.phase)).length} under way`;
      put(list, runs.length ? table(runs) : nothing());
      if (focused) rows().find((row) => row.querySelector("a").getAttribute("href") === focused)?.querySelector("a").focus();
    },
  };
}

export const FINISHED = new Set(["Succeeded", "Failed", "Stopped", "Damaged"]);

export function phasePill(phase) {
  return h("span", { class: `pill p-${phase.toLowerCase().replaceAll(" ", "-")}` }, phase);
}

export function progressBar(run) {
  const share = run.phase === "Succeeded" ? 100 : run.progress_percentage ?? 0;
  const bar = h("progress", { max: 100, value: share, "aria-label": `${share} % of ${run.name}` });
  return h("span", { class: "progress" }, bar, h("span", { class: "num" }, run.total_steps ? `${run.step} / ${run.total_steps}` : "–"));
}

export function runAddress(run) {
  return `#/runs/${encodeURIComponent(run.where)}/${encodeURIComponent(run.name)}`;
}

function table(runs) {
  const heads = [["Run"], ["State"], ["Step"], ["Reward", "num"], ["over steps", "wide"], ["Solved", "num wide"], ["Held out", "wide"], ["Left", "num wide"]];
  return h(
    "table",
    { class: "list" },
    h("thead", {}, h("tr", {}, heads.map(([name, style]) => h("th", { class: style, scope: "col" }, name)))),
    h("tbody", {}, runs.map(line)),
  );
}

function line(run) {
  const metrics = run.metrics ?? {};
  const heldOut = Object.entries(metrics).filter(([name]) => name.startsWith("eval/") && name.split("/").length === 2);
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, h("a", { href: runAddress(run) }, run.name), h("small", {}, run.where === "_" ? run.mode ?? "" : run.where), run.message && !["Succeeded"].includes(run.phase) ? h("small", { class: "why", title: run.message }, run.message) : null),
    h("td", {}, phasePill(run.phase), run.findings?.length ? h("small", { class: "warns", title: run.findings.map((one) => one.told).join("\n") }, count(run.findings.length, "warning")) : null),
    h("td", {}, progressBar(run)),
    h("td", { class: "num" }, number(metrics.rewardMean)),
    h("td", { class: "wide" }, sparkline(run.spark)),
    h("td", { class: "num wide" }, percent(metrics.solvedFraction)),
    h("td", { class: "wide" }, heldOut.length ? heldOut.map(([name, value]) => h("span", { class: "pair" }, `${name.slice(5)} `, h("b", {}, percent(value)))) : h("span", { class: "faint" }, "–")),
    h("td", { class: "num wide" }, FINISHED.has(run.phase) ? "–" : duration(run.remaining_seconds)),
  );
}

function nothing() {
  return h("div", { class: "empty" }, h("p", {}, "No run yet."), h("p", {}, "Start one: ", h("code", {}, "sweyard run -f examples/tiny/trainingrun.yaml")));
}
