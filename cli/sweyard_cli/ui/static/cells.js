// Thousands of small squares on one canvas, coloured by state; only squares whose state has changed are painted again.

import { h } from "/static/dom.js";

const GAP = 1;
const BETWEEN_GROUPS = 5;
const SMALLEST = 6;
const LARGEST = 22;

/**
 * `groupSize(cells)`: how many belong together, kept in one row with room behind them; 1 for none.
 * `look(cell)`: the name of a colour of the style sheet (`--o-solved`), `tell(cell)`: called with the one that is
 * pointed at, or null, `open(cell)`: with one that was chosen, if that leads anywhere. Arrow keys and Enter do what the pointer does.
 * `mostHeight` in pixels: squares become smaller rather than need more, down to a least size.
 */
export function cellMap({ look, tell, open = null, label, groupSize = () => 1, mostHeight = 420 }) {
  const canvas = h("canvas", { class: "cells", tabindex: "0", role: "img" });
  const box = h("div", { class: "cell-box" }, canvas);
  const ink = canvas.getContext("2d");
  let cells = [];
  let painted = [];
  let side = LARGEST;
  let columns = 1;
  let size = 1; // of a group
  let width = 0;
  let at = -1;
  let colours = new Map();

  function layOut() {
    side = LARGEST;
    size = groupSize(cells);
    if (size * SMALLEST > width) size = 1; // too many for a row
    const inRow = () => Math.max(1, size * Math.floor((width + room()) / (size * side + room())));
    const rows = () => Math.ceil(cells.length / inRow());
    while (side > SMALLEST && (rows() * side > mostHeight || size * side > width)) side -= 1;
    columns = inRow();
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

  const room = () => (size > 1 ? BETWEEN_GROUPS : 0);
  const left = (column) => column * side + Math.floor(column / size) * room();

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
      const x = left(i % columns);
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
    const group = Math.floor(event.offsetX / (size * side + room()));
    const within = Math.floor((event.offsetX - group * (size * side + room())) / side);
    const column = within < size ? group * size + within : columns;
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
