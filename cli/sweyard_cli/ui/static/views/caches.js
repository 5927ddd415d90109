// Images by nodes: what each node holds of what it is to hold, bytes against the budget, pulls now.

import { ask } from "/static/api.js";
import { cellMap } from "/static/cells.js";
import { bytes, count, h, put } from "/static/dom.js";
import { failureTable } from "/static/waves.js";

const STATES = ["cached", "pulling", "waiting", "failed"];
const MOST_HEIGHT = 640; // of all nodes of a cache together, in pixels

export function cachesView() {
  const list = h("div");
  return {
    title: "Images",
    element: h("section", { class: "page" }, h("header", { class: "head" }, h("h1", {}, "Images"), h("p", { class: "sub" }, "What nodes keep, so that sandboxes start without pulling: a square an image, first what is needed first.")), list),
    async refresh(topics) {
      if (topics !== null && !topics.includes("caches")) return;
      const caches = await ask("caches");
      put(list, caches.length ? caches.map(cacheOf) : h("p", { class: "empty" }, "No image cache: this page reads no cluster, or nothing is cached there."));
    },
  };
}

function cacheOf(cache) {
  return h("section", { class: "group" },
    h("h2", {}, cache.name, " ", h("span", { class: "sub" }, `${cache.where} · ${cache.condition}`)),
    h("p", { class: "legend" }, STATES.map((state) => h("span", { class: `tag i-${state}` }, h("i", { "aria-hidden": "true" }), state))),
    cache.nodes.map((node) => nodeOf(node, cache.images, MOST_HEIGHT / cache.nodes.length)),
    failureTable("Images in trouble", cache.failures));
}

function nodeOf(node, images, mostHeight) {
  const detail = h("p", { class: "detail", role: "status" });
  const map = cellMap({
    look: (cell) => `--i-${cell.state}`,
    tell: (cell) => put(detail, cell ? [h("span", { class: "mono" }, cell.image), ` · ${cell.state}`] : null),
    mostHeight,
    label: (cells) => `${node.name}: ${cells.filter((cell) => cell.state === "cached").length} of ${count(cells.length, "image")} held`,
  });
  map.show(node.states.map((state, i) => ({ image: images[i], state })).filter((cell) => cell.state));
  const use = node.budget_bytes ? h("progress", { max: node.budget_bytes, value: node.used_bytes, "aria-label": `bytes used on ${node.name}` }) : null;
  return h("div", { class: "node" },
    h("div", { class: "node-head" }, h("b", { class: "mono" }, node.name), h("span", { class: "sub" }, node.told), use, h("span", { class: "sub num" }, node.used_bytes ? `${bytes(node.used_bytes)}${node.budget_bytes ? ` of ${bytes(node.budget_bytes)}` : " used"}` : "")),
    map.element, detail);
}
