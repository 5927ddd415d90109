// The attempts of a run: filtered, sorted, searched. Only rows that are seen are asked for.

import { ask, runPath } from "/static/api.js";
import { EVERY_OUTCOME, h, number, outcomeTag, percent, put, unreadFiles } from "/static/dom.js";
import { runTabs } from "/static/views/run.js";
import { runAddress } from "/static/views/runs.js";
import { attemptAddress, labelName } from "/static/views/wave.js";

const ROW = 36;
const PAGE = 200;
const TYPING_MS = 200;
const COLUMNS = [["attempt_id", "Attempt", ""], ["outcome", "Outcome", ""], ["reward", "Reward", "num"], ["num_turns", "Turns", "num wide"], ["num_sampled_tokens", "Sampled", "num wide"], ["num_tokens", "Tokens", "num wide"]];

export function attemptsView({ parts: [where, name], parameters }) {
  const run = { where, name };
  const asked = { text: "", outcome: "", label: "", reward: "", task: "", min_tokens: "", group: "", sort: "", ...parameters };
  let pages = new Map();
  let total = 0;
  let isSearching = false;
  let chosen = 0;
  let round = new AbortController();

  const note = h("p", { class: "sub", role: "status" });
  const missing = h("div", { class: "missing-files" });
  const search = field("text", "Search transcripts, patches, grading  ( / )", "search");
  const outcomes = h("div", { class: "states", role: "group", "aria-label": "Outcome" });
  const label = h("select", { "aria-label": "Step or evaluation", onchange: () => change({ label: label.value }) });
  const heads = h("div", { role: "row", class: "row heads" });
  const sizer = h("div", { class: "sizer", role: "presentation" });
  const scroller = h("div", { class: "scroller", role: "presentation", onscroll: () => requestAnimationFrame(draw) }, sizer);
  const table = h("div", { class: "grid", role: "table", "aria-label": "Attempts" }, heads, scroller);

  function field(key, placeholder, type = "text") {
    let timer = 0;
    const input = h("input", { type, placeholder, "aria-label": placeholder, spellcheck: "false", autocomplete: "off" });
    input.value = asked[key];
    input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => change({ [key]: input.value.trim() }), TYPING_MS); });
    return input;
  }

  function change(by) {
    Object.assign(asked, by);
    const query = new URLSearchParams(Object.entries(asked).filter(([, value]) => value));
    history.replaceState(null, "", `${runAddress(run)}/attempts${query.size ? `?${query}` : ""}`);
    scroller.scrollTop = 0;
    chosen = 0;
    view.refresh(null).catch(tell);
  }

  const tell = (error) => { if (error.name !== "AbortError") note.textContent = error.message; };

  async function page(number) {
    if (pages.has(number)) return;
    pages.set(number, []);
    const own = pages;
    for (let searched = 0; searched < 1;) { // a search that takes long tells what it has
      const answer = await ask(`${runPath(run)}/attempts`, { ...asked, offset: number * PAGE, limit: PAGE }, round.signal);
      if (own !== pages) return;
      pages.set(number, answer.rows);
      ({ count: total, searched } = answer);
      isSearching = searched < 1;
      drawHead(answer);
      draw();
    }
  }

  function drawHead(answer) {
    const [found, all] = [answer.count, answer.of].map((count) => count.toLocaleString("en"));
    note.textContent = answer.searched < 1 ? `${found} so far, ${percent(answer.searched)} searched` : found === all ? `${all} attempts` : `${found} of ${all} attempts`;
    put(missing, unreadFiles(answer.unread));
    const wanted = asked.outcome.split(",").filter(Boolean);
    const known = EVERY_OUTCOME.filter((outcome) => outcome in answer.outcomes || wanted.includes(outcome));
    put(outcomes, known.map((outcome) => {
      const next = wanted.includes(outcome) ? wanted.filter((each) => each !== outcome) : [...wanted, outcome];
      return h("button", { "aria-pressed": String(wanted.includes(outcome)), onclick: () => change({ outcome: next.join(",") }) }, outcomeTag(outcome), " ", h("b", {}, (answer.outcomes[outcome] ?? 0).toLocaleString("en")));
    }));
    put(label, h("option", { value: "" }, "all steps and evaluations"), answer.labels.map((each) => h("option", { value: each, selected: each === asked.label }, labelName(each))));
    put(heads, COLUMNS.map(([key, title, style]) => {
      const order = asked.sort === key ? "ascending" : asked.sort === `-${key}` ? "descending" : "none";
      const next = { none: `-${key}`, descending: key, ascending: "" }[order];
      return h("div", { role: "columnheader", class: style, "aria-sort": order }, h("button", { class: "quiet", onclick: () => change({ sort: next }) }, title, { none: "", ascending: " ↑", descending: " ↓" }[order]));
    }));
    table.setAttribute("aria-rowcount", String(total + 1));
  }

  function draw() {
    const first = Math.max(0, Math.floor(scroller.scrollTop / ROW) - 5);
    const last = Math.min(total, first + Math.ceil(scroller.clientHeight / ROW) + 10);
    sizer.style.height = `${total * ROW}px`;
    const rows = [];
    for (let i = first; i < last; i += 1) {
      const number = Math.floor(i / PAGE);
      if (!pages.has(number)) page(number).catch(tell);
      const row = pages.get(number)?.[i % PAGE];
      if (row) rows.push(line(row, i));
    }
    const isFocused = sizer.contains(document.activeElement);
    put(sizer, total ? rows : h("p", { class: "empty" }, isSearching ? "Searching…" : "No such attempts."));
    if (isFocused) focus();
  }

  function line(row, index) {
    const link = h("a", { href: attemptAddress(run, row.attempt_id, asked.text ? { text: asked.text } : {}), class: "mono", "data-index": index, tabindex: index === chosen ? "0" : "-1" }, named(row.attempt_id));
    const cells = [link, outcomeTag(row.outcome), number(row.reward), row.num_turns, number(row.num_sampled_tokens), number(row.num_tokens)];
    const element = h("div", { role: "row", class: "row", "aria-rowindex": index + 2 }, cells.map((cell, i) => h("div", { role: "cell", class: COLUMNS[i][2] }, cell)));
    element.style.transform = `translateY(${index * ROW}px)`;
    return element;
  }

  /** Where there is no room, of the task; its attempts differ in what follows. */
  function named(id) {
    const end = id.lastIndexOf("/");
    return [h("span", {}, id.slice(0, end)), id.slice(end)];
  }

  function focus() {
    sizer.querySelector(`[data-index="${chosen}"]`)?.focus({ preventScroll: true });
  }

  function choose(by) {
    chosen = Math.max(0, Math.min(total - 1, chosen + by));
    if (chosen * ROW < scroller.scrollTop) scroller.scrollTop = chosen * ROW;
    if ((chosen + 1) * ROW > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = (chosen + 1) * ROW - scroller.clientHeight;
    draw();
    focus();
  }

  const view = {
    title: `${name}: attempts`,
    element: h("section", { class: "page tall" },
      h("header", { class: "head" }, h("div", { class: "title" }, h("h1", {}, name)), note, missing), runTabs(run, "attempts"),
      h("div", { class: "bar" }, search, label, field("task", "Task"), field("reward", "Reward, as >0.5"), field("min_tokens", "Sampled tokens ≥"), asked.group ? h("span", { class: "chip" }, `group ${asked.group}`, h("button", { class: "quiet", "aria-label": "all groups", onclick: (event) => { event.target.parentElement.remove(); change({ group: "" }); } }, "×")) : null),
      outcomes, table),
    keys: { "/": ["search", () => search.focus()], j: ["next attempt", () => choose(1)], k: ["attempt before", () => choose(-1)] },
    async refresh(topics) {
      if (topics !== null && !topics.includes(`run ${where}/${name}`)) return;
      round.abort();
      round = new AbortController();
      pages = new Map();
      await page(Math.floor(scroller.scrollTop / ROW / PAGE));
    },
    close: () => round.abort(),
  };
  return view;
}
