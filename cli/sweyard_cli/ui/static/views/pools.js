// Pools of sandboxes on a cluster: all of them, and one with a square for each sandbox.

import { ask } from "/static/api.js";
import { count, duration, h, put } from "/static/dom.js";
import { failureTable, shareBar, stateMap } from "/static/waves.js";

export const STATES = ["claimed", "ready", "starting", "pulling", "networking", "scheduling", "resetting", "ending", "failed"];
// By what ends it, each stage of a sandbox's life: the state of the squares that are in it.
const STAGES = { scheduled: "scheduling", networked: "networking", pulled: "pulling", ready: "starting", claimed: "ready" };

export function poolsView() {
  const list = h("div");
  return {
    title: "Sandboxes",
    element: h("section", { class: "page" }, h("header", { class: "head" }, h("h1", {}, "Sandboxes"), h("p", { class: "sub" }, "Pools on the cluster. The attempts of one run are under its Wave.")), list),
    async refresh() {
      const pools = await ask("pools");
      put(list, pools.length ? table(pools) : h("p", { class: "empty" }, "No pool: this page reads no cluster, or nothing runs there."));
    },
  };
}

function table(pools) {
  const heads = [["Pool", ""], ["Sandboxes", "num"], ["Filled", "wide"], ["Ready", "num wide"], ["Claimed", "num wide"], ["Starting", "num wide"], ["Asked for", "num wide"], ["Health", ""]];
  return h("table", { class: "list" }, h("thead", {}, h("tr", {}, heads.map(([name, style]) => h("th", { scope: "col", class: style }, name)))), h("tbody", {}, pools.map((pool) =>
    h("tr", {},
      h("th", { scope: "row" }, h("a", { href: `#/pools/${encodeURIComponent(pool.where)}/${encodeURIComponent(pool.name)}` }, pool.name), h("small", {}, pool.where)),
      h("td", { class: "num" }, `${many(pool.replicas)} / ${many(pool.cap)}`), h("td", { class: "wide" }, fillOf(pool)), [pool.ready, pool.claimed, pool.starting, pool.demand].map((value) => h("td", { class: "num wide" }, many(value))), h("td", {}, h("span", { class: `pill ${pool.health === "Healthy" ? "p-healthy" : "p-troubled"}` }, pool.health))))));
}

const many = (value) => value.toLocaleString("en");

/** How full a pool is, and with what: the numbers beside it say the same. */
function fillOf(pool) {
  const known = [["s-claimed", pool.claimed], ["s-ready", pool.ready], ["s-starting", pool.starting]];
  const free = Math.max(0, pool.cap - known.reduce((sum, [, many]) => sum + many, 0));
  return h("div", { class: "shares fill", "aria-hidden": "true" }, [...known, ["s-none", free]].filter(([, many]) => many).map(([colour, many]) => {
    const part = h("span", { class: colour });
    part.style.flexGrow = many;
    return part;
  }));
}

export function poolView({ parts: [where, name] }) {
  const note = h("p", { class: "sub" });
  const more = h("div");
  const map = stateMap({
    order: STATES,
    name: (state) => state,
    colour: (state) => `s-${state}`,
    noun: "sandbox",
    tell: (cell) => [h("span", { class: "mono" }, cell.id), ` · ${cell.state}`, cell.holder ? ` by ${cell.holder}` : "", cell.node ? ` · on ${cell.node}` : "", ` · ${cell.image}`, cell.seconds !== null ? ` · ${duration(cell.seconds)} so far` : "", cell.reason ? ` · ${cell.reason}` : ""],
  });
  return {
    title: name,
    element: h("section", { class: "page" }, h("header", { class: "head" }, h("p", { class: "crumbs" }, h("a", { href: "#/pools" }, "Sandboxes"), ` / ${where}`), h("h1", {}, name), note), map.element, more),
    async refresh(topics) {
      if (topics !== null && !topics.includes(`pool ${where}/${name}`)) return;
      const pool = await ask(`pools/${encodeURIComponent(where)}/${encodeURIComponent(name)}`);
      note.textContent = `${count(pool.cells.length, "sandbox")}${pool.message ? ` · ${pool.message}` : ""}`;
      map.show(pool.cells);
      put(more, shareBar("How long each stage takes, in the median", pool.stages.map(([stage, seconds]) => [STAGES[stage], `s-${STAGES[stage]}`, seconds])), failureTable("Failures, by reason and node", pool.failures));
    },
  };
}
