// One attempt turn by turn, or two of one group side by side: what was said and done, the diff, the grading, the tokens.

import { ask, runPath } from "/static/api.js";
import { count, duration, h, number, outcomeName, outcomeTag, put } from "/static/dom.js";
import { tokensOf } from "/static/tokens.js";
import { runAddress } from "/static/views/runs.js";
import { attemptAddress, labelName, STAGES } from "/static/views/wave.js";
import { shareLine } from "/static/waves.js";

const LONG_LINES = 30;

export function attemptView({ parts: [where, name], parameters }) {
  const run = { where, name };
  const { id, text = "" } = parameters;
  const other = parameters.with;
  const head = h("header", { class: "head" });
  const group = h("nav", { class: "group-of", "aria-label": "Attempts of its group" });
  const columns = h("div", { class: other ? "columns two" : "columns" });
  let members = [];
  let isDrawn = false;

  function go(by) {
    const index = members.findIndex((member) => member.attempt_id === id) + by;
    if (members[index]) location.hash = attemptAddress(run, members[index].attempt_id);
  }

  function turn(by) {
    const turns = [...columns.querySelectorAll(".turn.reply")];
    const below = turns.findIndex((one) => one.getBoundingClientRect().top > 130);
    const next = by > 0 ? below : (below < 0 ? turns.length : below) - 2;
    turns[Math.max(0, next)]?.scrollIntoView({ block: "start" });
  }

  return {
    title: id ?? "attempt",
    element: h("section", { class: "page" }, head, group, columns),
    keys: { "[": ["attempt before, of its group", () => go(-1)], "]": ["next attempt of its group", () => go(1)], j: ["next turn", () => turn(1)], k: ["turn before", () => turn(-1)] },
    async refresh() {
      if (isDrawn) return; // what has ended does not change
      const shown = await Promise.all([id, other].filter(Boolean).map((each) => ask(`${runPath(run)}/attempt`, { id: each })));
      isDrawn = true;
      members = shown[0].group;
      put(head, crumbs(run, shown[0]));
      put(group, members.length > 1 ? groupStrip(run, members, id, other) : null);
      put(columns, shown.map((attempt) => column(run, attempt, text, () => ask(`${runPath(run)}/tokens`, { id: attempt.attempt_id }))));
      const wanted = parameters.turn ? columns.querySelector(`[data-turn="${CSS.escape(parameters.turn)}"]`) : columns.querySelector("mark");
      if (wanted) { wanted.closest(".long")?.classList.remove("long"); wanted.scrollIntoView({ block: "center" }); }
    },
  };
}

function crumbs(run, attempt) {
  return [
    h("p", { class: "crumbs" }, h("a", { href: runAddress(run) }, run.name), " / ", h("a", { href: `${runAddress(run)}/attempts` }, "attempts"), " / ", h("a", { href: `${runAddress(run)}/attempts?label=${encodeURIComponent(attempt.label)}` }, labelName(attempt.label))),
    h("h1", {}, attempt.task_id),
  ];
}

/** Within its group: the end of its name. */
const numberOf = (member) => member.attempt_id.slice(member.attempt_id.lastIndexOf("/") + 1);
const toldOf = (member) => `${numberOf(member)}: ${outcomeName(member.outcome)}, reward ${number(member.reward)}`;

function groupStrip(run, members, id, other) {
  const strip = members.map((member) => h("a", {
    class: `member o-${member.outcome}`,
    href: attemptAddress(run, member.attempt_id),
    "aria-current": member.attempt_id === id ? "true" : null,
    title: toldOf(member),
  }, h("i", { "aria-hidden": "true" }), numberOf(member), h("span", { class: "hidden" }, ` ${outcomeName(member.outcome)}`)));
  const rest = members.filter((member) => member.attempt_id !== id);
  const compare = h("select", { "aria-label": "Beside it", onchange: (event) => { location.hash = attemptAddress(run, id, event.target.value ? { with: event.target.value } : {}); } },
    h("option", { value: "" }, other ? "alone" : "Read another beside it…"),
    rest.map((member) => h("option", { value: member.attempt_id, selected: member.attempt_id === other }, toldOf(member))));
  return [h("span", { class: "sub" }, "its group"), strip, compare];
}

function column(run, attempt, text, askTokens) {
  const parts = {
    Conversation: attempt.messages.map((message) => turnOf(run, attempt, message, text)),
    Patch: attempt.diff.length ? h("pre", { class: "diff" }, attempt.diff.map(([kind, line]) => h("span", { class: kind }, marked(line, text), "\n"))) : null,
    Grading: gradingOf(attempt, text),
  };
  return h("article", { class: "attempt", "aria-label": attempt.attempt_id },
    summary(attempt),
    Object.entries(parts).filter(([, part]) => part && part.length !== 0).map(([title, part]) => h("section", {}, h("h2", {}, title), part)),
    tokenSection(attempt, askTokens));
}

function summary(attempt) {
  const facts = [
    `reward ${number(attempt.reward)}`,
    attempt.official === null ? "not graded" : attempt.official ? "the data set says solved" : "the data set says not solved",
    count(attempt.num_turns, "turn"),
    `${attempt.num_sampled_tokens.toLocaleString("en")} of ${attempt.num_tokens.toLocaleString("en")} tokens sampled`,
    attempt.timings.total ? duration(attempt.timings.total) : null,
    attempt.batch_group === null && attempt.label.startsWith("step-") ? "not in the batch that was trained on" : null,
  ].filter(Boolean);
  return h("div", { class: "summary" },
    h("p", {}, outcomeTag(attempt.outcome), " ", h("span", { class: "mono" }, attempt.attempt_id)),
    h("p", { class: "sub" }, facts.join(" · ")),
    shareLine(STAGES.map(([title, colour, stage]) => [title, colour, attempt.timings[stage] ?? 0])),
    attempt.infra_reason ? h("pre", { class: "trouble" }, attempt.infra_reason) : null);
}

function turnOf(run, attempt, message, text) {
  const who = { prompt: message.role === "system" ? "instructions" : "prompt", reply: `turn ${message.turn}`, observation: "output" }[message.kind];
  const isLong = message.text.split("\n").length > LONG_LINES || message.text.length > 5000;
  const said = message.text ? h("pre", {}, marked(message.text, text)) : h("p", { class: "faint" }, "(empty)");
  const body = h("div", { class: isLong && !said.querySelector("mark") ? "said long" : "said" }, said);
  const unfold = isLong ? unfoldButton(body) : null;
  const label = message.kind === "reply" ? h("a", { href: attemptAddress(run, attempt.attempt_id, { turn: message.turn }), title: "A link to this turn" }, who) : who;
  return h("div", { class: `turn ${message.kind}`, "data-turn": message.kind === "reply" ? message.turn : null }, h("div", { class: "who" }, label), h("div", {}, body, unfold));
}

function unfoldButton(body) {
  const tell = () => {
    const isFolded = body.classList.contains("long");
    button.textContent = isFolded ? "Show all" : "Show less";
    button.setAttribute("aria-expanded", String(!isFolded));
  };
  const button = h("button", { class: "quiet unfold", onclick: () => { body.classList.toggle("long"); tell(); } });
  tell();
  return button;
}

function gradingOf(attempt, text) {
  if (!attempt.grading.length) return attempt.official === null ? null : h("p", { class: "sub" }, "The grader had nothing to say: all tests that must pass passed.");
  return h("pre", { class: "grading" }, attempt.grading.map(([isDeciding, line]) => h("span", { class: isDeciding ? "deciding" : null }, marked(line, text), "\n")));
}

function tokenSection(attempt, askTokens) {
  const box = h("div");
  const details = h("details", { class: "tokens" }, h("summary", {}, "Tokens ", h("span", { class: "sub" }, "with mask, logprob and weight version")), box);
  details.addEventListener("toggle", async () => {
    if (!details.open || box.childElementCount) return;
    put(box, h("p", { class: "sub" }, "reading…"));
    await askTokens().then((tokens) => put(box, tokensOf(tokens)), (error) => put(box, h("p", { class: "trouble" }, error.message)));
  });
  return h("section", {}, details);
}

/** The text, with what was searched for marked in it. */
function marked(text, wanted) {
  if (!wanted) return text;
  const [hay, needle] = wanted === wanted.toLowerCase() ? [text.toLowerCase(), wanted] : [text, wanted];
  const parts = [];
  let from = 0;
  for (let at = hay.indexOf(needle); at >= 0 && hay.length === text.length; at = hay.indexOf(needle, from)) {
    parts.push(text.slice(from, at), h("mark", {}, text.slice(at, at + needle.length)));
    from = at + needle.length;
  }
  return [...parts, text.slice(from)];
}
