// Addresses, keys, and news: which view is shown, and when it draws anew. One view a file in views/.

import { listen } from "/static/api.js";
import { h, put } from "/static/dom.js";
import { attemptView } from "/static/views/attempt.js";
import { attemptsView } from "/static/views/attempts.js";
import { cachesView } from "/static/views/caches.js";
import { poolView, poolsView } from "/static/views/pools.js";
import { runView } from "/static/views/run.js";
import { runsView } from "/static/views/runs.js";
import { waveView } from "/static/views/wave.js";

// A view is made from its address's parts: {title, element, refresh(topics), keys?: {key: [what, does]}, close?}.
const VIEWS = [
  [/^\/runs$/, "runs", runsView],
  [/^\/runs\/([^/]+)\/([^/]+)$/, "runs", runView],
  [/^\/runs\/([^/]+)\/([^/]+)\/attempts$/, "runs", attemptsView],
  [/^\/runs\/([^/]+)\/([^/]+)\/attempt$/, "runs", attemptView],
  [/^\/runs\/([^/]+)\/([^/]+)\/wave$/, "runs", waveView],
  [/^\/pools$/, "pools", poolsView],
  [/^\/pools\/([^/]+)\/([^/]+)$/, "pools", poolView],
  [/^\/caches$/, "caches", cachesView],
];
const main = document.getElementById("main");
const dialog = document.getElementById("keys");
const live = document.getElementById("live");
let shown = null;
let shownPath = "";
let lastKey = "";

function address() {
  const [path, query = ""] = location.hash.slice(1).split("?");
  return { path: path || "/runs", parameters: Object.fromEntries(new URLSearchParams(query)) };
}

function show() {
  if (location.hash === "#main") return; // the link that skips to the content
  const { path, parameters } = address();
  if (shown && path === shownPath && shown.moved?.(parameters)) return;
  shown?.close?.();
  dialog.close(); // its keys are of the view that was
  const found = VIEWS.map(([pattern, section, make]) => [path.match(pattern), section, make]).find(([match]) => match);
  shown = found ? found[2]({ parts: found[0].slice(1).map(decodeURIComponent), parameters }) : unknown(path);
  shownPath = path;
  document.title = `${shown.title} · sweyard`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.section === found?.[1]) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  put(main, shown.element);
  main.scrollTop = 0;
  refresh(null);
}

function unknown(path) {
  return { title: "Not found", element: h("p", { class: "empty" }, `There is no page ${path}.`), refresh() {} };
}

async function refresh(topics) {
  const view = shown;
  try {
    await view.refresh(topics);
    view.trouble?.remove();
    view.trouble = null;
  } catch (error) {
    if (view !== shown || error.name === "AbortError") return;
    const told = h("p", { class: "trouble", role: "alert" }, error.message);
    view.trouble?.remove();
    view.element.querySelector(".waiting")?.remove();
    main.prepend((view.trouble = told));
  }
}

function chooseTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
  dispatchEvent(new Event("themechange"));
}

const KEYS = {
  "g r": ["runs", () => { location.hash = "#/runs"; }],
  "g s": ["sandboxes", () => { location.hash = "#/pools"; }],
  "g i": ["images", () => { location.hash = "#/caches"; }],
  t: ["light or dark", chooseTheme],
  "?": ["these keys", showKeys],
};

function showKeys() {
  const all = Object.entries({ ...KEYS, ...shown.keys });
  put(
    dialog,
    h("h2", { id: "keys-title" }, "Keys"),
    h("dl", { class: "keys" }, all.map(([key, [what]]) => [h("dt", {}, key.split(" ").map((k) => h("kbd", {}, k))), h("dd", {}, what)])),
    h("form", { method: "dialog" }, h("button", {}, "Close")),
  );
  dialog.showModal();
}

addEventListener("keydown", (event) => {
  const isTyping = event.target.closest?.("input, select, textarea, dialog[open]");
  if (event.ctrlKey || event.metaKey || event.altKey || (isTyping && event.key !== "Escape")) return;
  if (isTyping) { event.target.blur(); return; }
  const keys = { ...KEYS, ...shown.keys };
  const action = keys[`${lastKey} ${event.key}`] ?? keys[event.key];
  lastKey = event.key;
  if (!action) return;
  event.preventDefault();
  action[1]();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("themechange")));
document.getElementById("theme").addEventListener("click", chooseTheme);
document.getElementById("help").addEventListener("click", showKeys);
addEventListener("hashchange", show);
show();
listen(refresh, (state) => { live.dataset.state = state; live.textContent = state; });
