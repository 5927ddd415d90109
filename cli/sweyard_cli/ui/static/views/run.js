// One run: its figures step by step, beside those of others.

import { ask, runPath } from "/static/api.js";
import { COLOURS, lineChart, sparkline, stackedBars } from "/static/charts.js";
import { duration, EVERY_OUTCOME, h, number, outcomeName, percent, put, unreadFiles } from "/static/dom.js";
import { FINISHED, phasePill, progressBar, runAddress } from "/static/views/runs.js";

// [title, [[name in the legend, figure]...], how it is written, begins at zero]
const CHARTS = {
  Policy: [
    ["Entropy", [["", "train/entropy"]]],
    ["KL between engine and trainer", [["all tokens", "train/engine_kl"], ["of fresh weights", "train/fresh_engine_kl"]], number, true],
    ["Ratio between engine and trainer", [["", "train/engine_ratio_mean"]], ratio],
    ["Clip fraction", [["", "train/clip_fraction"]], percent, true],
    ["Gradient norm", [["", "train/grad_norm"]], number, true],
    ["Loss", [["", "train/loss"]]],
    ["KL to the reference", [["", "train/kl"]]],
  ],
  Speed: [
    ["Tokens a second", [["", "rollout/tokens_per_second"]], number, true],
    ["Staleness in weight versions", [["mean", "rollout/staleness_mean"], ["most", "rollout/staleness_max"]], number, true],
  ],
  "Warm-up": [
    ["Loss", [["", "warmup/loss"]]],
    ["Gradient norm", [["", "warmup/grad_norm"]], number, true],
  ],
};

function ratio(value) {
  return value === null ? "–" : value.toFixed(4); // next to 1, where what matters begins
}

const STAGES = { ImagesReady: "Images", SandboxesReady: "Sandboxes", InferenceReady: "Engines", TrainerReady: "Trainer" };

export function runView({ parts: [where, name], parameters }) {
  const run = { where, name };
  const others = (parameters.compare ?? "").split(",").filter(Boolean).map((key) => ({ where: key.slice(0, key.indexOf("/")), name: key.slice(key.indexOf("/") + 1) }));
  const head = h("header", { class: "head" }, h("h1", {}, name));
  const findings = h("ul", { class: "findings", "aria-label": "Out of bounds" });
  const facts = h("dl", { class: "facts" });
  const chosen = h("div", { class: "compare" });
  const charts = h("div", {}, h("p", { class: "empty waiting" }, "Reading the figures…"));
  const config = h("details", { class: "config" });
  let drawn = "";

  function compareWith(list) {
    const keys = list.map((one) => `${one.where}/${one.name}`).join(",");
    location.hash = runAddress(run) + (keys ? `?compare=${encodeURIComponent(keys)}` : "");
  }

  return {
    title: name,
    element: h("section", { class: "page" }, head, runTabs(run, "figures"), findings, facts, chosen, charts, config),
    async refresh(topics) {
      const isAbout = (one) => topics === null || topics.includes(`run ${one.where}/${one.name}`);
      if (![run, ...others].some(isAbout)) return;
      const [state, all] = await Promise.all([ask(runPath(run)), ask("runs")]);
      put(head, headOf(state));
      put(findings, (state.findings ?? []).map((one) => h("li", {}, h("b", {}, one.told), h("small", {}, one.remedy))));
      put(facts, factsOf(state).map(([key, value]) => h("div", {}, h("dt", {}, key), h("dd", {}, value))));
      put(chosen, comparison(run, others, all, compareWith));
      if (!config.childElementCount && state.config) put(config, h("summary", {}, "Configuration"), h("pre", {}, state.config));
      const figures = state.has_files === false ? [] : await Promise.all([run, ...others].map((one) => ask(`${runPath(one)}/figures`)));
      const now = JSON.stringify(figures);
      if (now !== drawn) { drawn = now; put(charts, chartsOf([run, ...others], figures, state)); }
    },
  };
}

/** Where else one can look at a run. */
export function runTabs(run, current) {
  const tabs = [["figures", "Figures", ""], ["attempts", "Attempts", "/attempts"], ["wave", "Wave", "/wave"]];
  return h("nav", { class: "tabs", "aria-label": "Of this run" }, tabs.map(([key, title, end]) =>
    h("a", { href: runAddress(run) + end, "aria-current": key === current ? "page" : null }, title)));
}

export function headOf(run) {
  const left = FINISHED.has(run.phase) ? null : run.remaining_seconds ? `${duration(run.remaining_seconds)} left` : null;
  return [
    h("div", { class: "title" }, h("h1", {}, run.name), phasePill(run.phase), progressBar(run), left ? h("span", { class: "sub" }, left) : null),
    run.message && run.phase !== "Succeeded" ? h("p", { class: "sub" }, run.message) : null,
    FINISHED.has(run.phase) ? null : stagesOf(run.stages ?? {}),
  ];
}

/** What must be there before the trainer, in its order: what is, what is waited for and why, what comes then. */
function stagesOf(stages) {
  const known = Object.entries(STAGES).filter(([stage]) => stage in stages);
  const waiting = known.findIndex(([stage]) => stages[stage] !== "True");
  if (waiting < 0) return null;
  return h("ol", { class: "stages" }, known.map(([stage, name], i) => {
    const isThere = stages[stage] === "True";
    return h("li", { class: isThere ? "there" : i === waiting ? "now" : null }, name, isThere ? h("span", { class: "hidden" }, " ready") : h("small", {}, stages[stage]));
  }));
}

function factsOf(run) {
  const seconds = Object.values(run.seconds ?? {}).reduce((sum, value) => sum + value, 0);
  return [
    ...(run.facts ?? []),
    run.weight_version !== null && run.weight_version !== undefined ? ["weights", `v${run.weight_version}`] : null,
    run.restarts ? ["restarts", run.restart_steps?.length ? `${run.restarts}, after step ${run.restart_steps.join(", ")}` : String(run.restarts)] : null,
    run.pool ? ["sandboxes", h("a", { class: "link", href: `#/pools/${encodeURIComponent(run.where)}/${encodeURIComponent(run.pool)}` }, `${run.sandboxes.claimed} claimed, ${run.sandboxes.ready} ready`)] : null,
    seconds ? ["took", duration(seconds)] : null,
  ].filter(Boolean);
}

function comparison(run, others, all, compareWith) {
  const key = (one) => `${one.where}/${one.name}`;
  const rest = all.filter((one) => ![run, ...others].some((known) => key(known) === key(one)));
  const chips = others.map((one, i) =>
    h("span", { class: `chip ${COLOURS[(i + 1) % COLOURS.length]}` }, h("i", { "aria-hidden": "true" }), one.name,
      h("button", { class: "quiet", "aria-label": `without ${one.name}`, onclick: () => compareWith(others.filter((each) => each !== one)) }, "×")));
  if (!rest.length) return chips;
  const pick = h("select", { "aria-label": "Compare with", onchange: (event) => compareWith([...others, rest[event.target.value]]) },
    h("option", { value: "" }, "Compare with…"), rest.map((one, i) => h("option", { value: i }, one.where === "_" ? one.name : key(one))));
  return [chips, pick];
}

function chartsOf(runs, figures, state) {
  if (!figures.length) return withoutFiles(state);
  const data = figures.map((one) => ({ ...one, main: one.phases.rl ?? one.phases.sft ?? null }));
  const several = runs.length > 1;
  const missing = figures.flatMap((one) => one.unread);
  const marks = (state.restart_steps ?? []).map((x) => ({ x, what: "the trainer was started again" }));
  const version = data[0].versions;
  const at = (step) => (version === null || !data[0].main ? "" : ` · weights v${step - 1 + version}`);
  // One chart of a run's curves; of several runs a chart for each kind of curve, so that a colour always is a run.
  const draw = (title, curvesOf, options = {}) => {
    const curves = data.flatMap((one, run) => curvesOf(one).map((curve) => ({ ...curve, run })));
    const labels = several ? [...new Set(curves.map((curve) => curve.label))] : [null];
    return labels.map((label) => lineChart({
      title: label ? `${title}: ${label}` : title,
      series: curves.filter((curve) => label === null || curve.label === label).map((curve, i) => ({
        ...curve, bound: data[0].bounds[curve.figure], name: several ? runs[curve.run].name : curve.label, colour: COLOURS[(several ? curve.run : i) % COLOURS.length],
      })),
      marks, at, ...options,
    }));
  };
  const plain = ([title, names, format, fromZero], columnsOf = (one) => one.main, more = {}) =>
    draw(title, (one) => names.map(([label, figure]) => ({ label, figure, points: pointsOf(columnsOf(one), figure) })), { format, fromZero, ...more });
  const sections = {
    Learning: [
      draw("Reward", (one) => [{ label: "", points: pointsOf(one.main, "rollout/reward_mean") }], { fromZero: true }),
      draw("Solved", solvedCurves, { format: percent, fromZero: true }),
      several ? null : outcomeBars(data[0], at),
      draw("Groups with signal", (one) => [{ label: "", figure: "rollout/groups_with_signal", points: shareOf(one.main, ["rollout/groups_with_signal"], ["rollout/groups", "rollout/groups_dropped"]) }], { format: percent, fromZero: true }),
    ],
    Policy: CHARTS.Policy.map((chart) => plain(chart)),
    Attempts: [
      plain(["Sampled tokens an attempt", [["", "rollout/sampled_tokens_mean"]], number, true]),
      draw("Turns an attempt", (one) => [{ label: "", points: one.turns.step.map((x, k) => ({ x, y: one.turns.values[k] })) }], { fromZero: true }),
      plain(["Truncated, and failures of infrastructure", [["truncated", "rollout/truncated_fraction"], ["infrastructure", "rollout/infra_failure_fraction"]], percent, true]),
    ],
    Speed: [...CHARTS.Speed.map((chart) => plain(chart)), draw("Idle", idleCurves, { format: percent, fromZero: true }), several ? null : timeBars(data[0], at)],
    "Warm-up": CHARTS["Warm-up"].map((chart) => plain(chart, (one) => one.phases.warmup, { marks: [], at: null })),
  };
  const shown = Object.entries(sections).map(([title, all]) => [title, all.flat().filter(Boolean)]).filter(([, all]) => all.length);
  if (!shown.length) return [unreadFiles(missing), h("p", { class: "empty" }, "No step has ended yet.")];
  return [unreadFiles(missing), shown.map(([title, all]) => h("section", { class: "group" }, h("h2", {}, title), h("div", { class: "charts" }, all)))];
}

/** Of a run whose volume is not mounted: what its status has said of the reward while somebody looked. */
function withoutFiles(state) {
  const isKnown = state.spark?.length > 1;
  return [
    isKnown ? h("section", { class: "since" }, h("h2", {}, "Reward, since this page looks"), sparkline(state.spark, 480, 96)) : null,
    h("p", { class: isKnown ? "sub" : "empty" }, `${isKnown ? "All other figures" : "Figures"} are in the files of the run, which this page was not given: its volume must be mounted here.`),
  ];
}

function pointsOf(columns, figure) {
  const values = columns?.figures[figure];
  return values ? columns.step.map((x, k) => ({ x, y: values[k] })) : [];
}

function solvedCurves(one) {
  const sources = [...new Set(one.evaluations.flatMap((each) => Object.keys(each.sources)))];
  return [
    { label: "training", points: pointsOf(one.main, "rollout/solved_fraction") },
    ...sources.map((source) => ({
      label: source,
      dots: true,
      points: one.evaluations.filter((each) => each.sources[source]).map((each) => ({ x: each.step, y: each.sources[source].solved_fraction, low: each.sources[source].low, high: each.sources[source].high })),
    })),
  ];
}

/** One sum of figures as a share of another, step by step, where all of them are known. */
function shareOf(columns, parts, whole) {
  if (!columns) return [];
  const sum = (names, k) => names.reduce((total, name) => total + (columns.figures[name]?.[k] ?? NaN), 0);
  const share = (k) => sum(parts, k) / sum(whole, k);
  return columns.step.map((x, k) => ({ x, y: Number.isFinite(share(k)) ? share(k) : null }));
}

function idleCurves(one) {
  const trainer = shareOf(one.main, ["time/rollout_seconds"], ["time/step_seconds"]);
  return [{ label: "trainer", points: trainer }, { label: "places for attempts", points: pointsOf(one.main, "time/idle_places_fraction") }];
}

function outcomeBars(data, at) {
  const { step, values } = data.outcomes;
  const parts = EVERY_OUTCOME.map((outcome) => ({ name: outcomeName(outcome), colour: `o-${outcome}`, values: values.map((counts) => counts[outcome] ?? 0) }));
  return stackedBars({ title: "How attempts ended", steps: step, parts, format: (value) => value.toLocaleString("en"), at });
}

function timeBars(data, at) {
  const figures = data.main?.figures ?? {};
  const names = { rollouts: "time/rollout_seconds", training: "time/train_seconds", "weight sync": "time/weight_sync_seconds" };
  const parts = Object.entries(names).map(([name, figure], i) => ({ name, colour: COLOURS[i], values: figures[figure] ?? [] }));
  return stackedBars({ title: "Where a step's time goes", steps: parts.some((part) => part.values.length) ? data.main.step : [], parts, format: duration, at });
}
