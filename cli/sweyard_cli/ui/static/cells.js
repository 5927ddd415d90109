// Thousands of small squares on one canvas, coloured by state; only squares whose state has changed are painted again.

import { h } from "/static/dom.js";

const GAP = 1;
const SMALLEST = 6;
const LARGEST = 22;
const MOST_HEIGHT = 420;

/**
 * `look(cell)`: the name of a colour of the style sheet (`--o-solved`), `tell(cell)`: called with the one that is
 * pointed at, or null, `open(cell)`: with one that was chosen, if that leads anywhere. Arrow keys and Enter do what the pointer does.
 */
export function cellMap({ look, tell, open = null, label }) {
  const canvas = h("canvas", { class: "cells", tabindex: "0", role: "img" });
  const box = h("div", { class: "cell-box" }, canvas);
  const ink = canvas.getContext("2d");
  let cells = [];
  let painted = [];
  let side = LARGEST;
  let columns = 1;
  let width = 0;
  let at = -1;
  let colours = new Map();

  function layOut() {
    side = LARGEST;
    const rows = () => Math.ceil(cells.length / Math.max(1, Math.floor(width / side)));
    while (side > SMALLEST && rows() * side > MOST_HEIGHT) side -= 1;
    columns = Math.max(1, Math.floor(width / side));
    const scale = devicePixelRatio || 1;
    const height = Math.max(side, rows() * side);
    canvas.width = width * scale;
    canvas.height = height * scale;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    ink.setTransform(scale, 0, 0, scale, 0, 0);
    painted = [];
    colours = new Map();
  }

  function colour(name) {
    if (!colours.has(name)) colours.set(name, getComputedStyle(canvas).getPropertyValue(name).trim() || "#888");
    return colours.get(name);
  }

  function paint() {
    cells.forEach((cell, i) => {
      const name = look(cell);
      const drawn = i === at ? `${name} at` : name;
      if (painted[i] === drawn) return;
      painted[i] = drawn;
      const x = (i % columns) * side;
      const y = Math.floor(i / columns) * side;
      ink.clearRect(x, y, side, side);
      ink.fillStyle = colour(name);
      ink.beginPath();
      ink.roundRect(x, y, side - GAP, side - GAP, side > 10 ? 2 : 0);
      ink.fill();
      if (i !== at) return;
      ink.strokeStyle = colour("--text");
      ink.lineWidth = 2;
      ink.strokeRect(x + 1, y + 1, side - GAP - 2, side - GAP - 2);
    });
  }

  function point(index) {
    if (index === at) return;
    at = index;
    paint();
    tell(cells[at] ?? null);
  }

  canvas.addEventListener("pointermove", (event) => {
    const column = Math.floor(event.offsetX / side);
    const index = Math.floor(event.offsetY / side) * columns + column;
    point(column < columns && index < cells.length ? index : -1);
  });
  canvas.addEventListener("pointerleave", () => point(-1));
  canvas.addEventListener("click", () => cells[at] && open?.(cells[at]));
  canvas.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
    if (event.key === "Enter" && cells[at]) open?.(cells[at]);
    if (!by) return;
    event.preventDefault();
    const next = at < 0 ? 0 : at + by;
    if (next >= 0 && next < cells.length) point(next);
  });
  const changeTheme = () => {
    if (!canvas.isConnected) { removeEventListener("themechange", changeTheme); return; }
    layOut();
    paint();
  };
  addEventListener("themechange", changeTheme);
  new ResizeObserver(([entry]) => {
    const found = Math.floor(entry.contentRect.width);
    if (found && found !== width) { width = found; layOut(); paint(); }
  }).observe(box);

  return {
    element: box,
    /** Show these; positions stay as long as their number does. */
    show(next) {
      const isAsMany = next.length === cells.length;
      cells = next;
      canvas.setAttribute("aria-label", label(cells));
      if (!width) return;
      if (!isAsMany) layOut();
      paint();
      if (at >= 0) tell(cells[at] ?? null);
    },
    repaint: paint,
  };
}
