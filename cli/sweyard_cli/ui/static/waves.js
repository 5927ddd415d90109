// What waves of attempts and pools of sandboxes have in common: counts by state, a square each, shares of time, failures.

import { cellMap } from "/static/cells.js";
import { count, duration, h, percent, put } from "/static/dom.js";

/** Squares under the counts of their states; a state that is pressed is shown alone. */
export function stateMap({ order, name, colour, tell, open = null, noun, groupSize }) {
  let alone = null;
  let cells = [];
  const counts = h("div", { class: "states" });
  const detail = h("p", { class: "detail", role: "status" });
  const map = cellMap({
    look: (cell) => (alone === null || alone === cell.state ? `--${colour(cell.state)}` : "--dim"),
    tell: (cell) => put(detail, cell ? tell(cell) : hint()),
    open,
    groupSize,
    label: (all) => `${count(all.length, noun)}: ${[...tally(all)].map(([state, many]) => `${many} ${name(state)}`).join(", ")}`,
  });
  const hint = () => h("span", { class: "faint" }, cells.length ? `Point at a square, or walk with the arrow keys${open ? "; Enter opens" : ""}.` : "");

  function draw() {
    const found = tally(cells);
    const states = [...order.filter((state) => found.has(state)), ...[...found.keys()].filter((state) => !order.includes(state))];
    put(counts, states.map((state) =>
      h("button", { class: `tag ${colour(state)}`, "aria-pressed": String(alone === state), onclick: () => { alone = alone === state ? null : state; draw(); map.repaint(); } },
        h("i", { "aria-hidden": "true" }), name(state), " ", h("b", {}, found.get(state).toLocaleString("en")))));
  }
  put(detail, hint());
  return {
    element: h("div", { class: "state-map" }, counts, map.element, detail),
    show(next) { cells = next; draw(); map.show(cells); if (!detail.textContent) put(detail, hint()); },
  };
}

/** One bar of shares under a title, with what each is. */
export function shareBar(title, shares) {
  const drawn = shareLine(shares);
  return drawn && h("section", { class: "group" }, h("h2", {}, title), drawn);
}

/** The bar alone: `shares` are [what, class of its colour, seconds]. */
export function shareLine(shares) {
  const total = shares.reduce((sum, [, , value]) => sum + value, 0);
  if (!total) return null;
  const parts = shares.filter(([, , value]) => value > 0);
  const bar = h("div", { class: "shares", "aria-hidden": "true" }, parts.map(([, colour, value]) => {
    const part = h("span", { class: colour });
    part.style.flexGrow = value;
    return part;
  }));
  const legend = h("ul", { class: "told" }, parts.map(([name, colour, value]) =>
    h("li", { class: colour }, h("i", { "aria-hidden": "true" }), `${name} `, h("b", {}, percent(value / total)), h("span", { class: "faint" }, ` ${duration(value)}`))));
  return [bar, legend];
}

/** Failures by what they were of. */
export function failureTable(title, failures) {
  if (!failures?.length) return null;
  return h("section", { class: "group" }, h("h2", {}, title), h("table", { class: "list plain" }, h("tbody", {}, failures.map(([what, many]) =>
    h("tr", {}, h("td", { class: "num" }, many.toLocaleString("en")), h("td", { class: "mono" }, what))))));
}

function tally(cells) {
  const found = new Map();
  for (const cell of cells) found.set(cell.state, (found.get(cell.state) ?? 0) + 1);
  return found;
}
