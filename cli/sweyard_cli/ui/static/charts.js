// Charts of steps. Pointing at one points at the same step in all; what is pointed at is told in numbers above the curve.

import { h, number, percent, put, s } from "/static/dom.js";

const HEIGHT = 128;
const LEFT = 46;
const RIGHT = 8;
const TOP = 8;
const BOTTOM = 18;
const FLAT = 1e-6; // a share of the values: differences below it are rounding
const pointing = new EventTarget();

export const COLOURS = ["c0", "c1", "c2", "c3", "c4", "c5"];

/**
 * Curves over steps. `series`: [{name, colour, points: [{x, y, low?, high?}], dots?, bound?}]; y may be null, and is
 * sound up to `bound`, which is drawn once it is near. `marks`: [{x, what}], upright lines. `at(x)`: what else there is
 * to say of a step.
 */
export function lineChart({ title, series, format = number, fromZero = false, marks = [], at = null }) {
  const shown = series.filter((one) => one.points.some((point) => point.y !== null && point.y !== undefined));
  if (!shown.length) return null;
  const ys = shown.flatMap((one) => one.points.flatMap((p) => [p.y, p.low, p.high])).filter((y) => y !== null && y !== undefined);
  const frame = frameOf(shown.flatMap((one) => one.points.map((p) => p.x)), ys, fromZero);
  const bounds = shown.filter((one) => one.bound >= frame.y0 && one.bound <= frame.y1);
  const drawn = (x, y) => [
    bounds.map((one) => s("line", { class: `bound ${one.colour}`, x1: LEFT, x2: x(frame.x1), y1: y(one.bound), y2: y(one.bound) }, s("title", {}, `${one.name} is sound up to ${format(one.bound)}`))),
    marks.map((mark) => s("line", { class: "mark", x1: x(mark.x), x2: x(mark.x), y1: TOP, y2: HEIGHT - BOTTOM }, s("title", {}, mark.what))),
    shown.map((one) => s("g", { class: one.colour }, one.dots ? dots(one.points, x, y) : curve(one.points, x, y))),
  ];
  const values = (step) => shown.map((one) => ({ ...one, value: valueAt(one.points, step) }));
  return figure({ title, frame, format, drawn, values, at });
}

/** Bars of equal height: `steps`, and `parts`: [{name, colour, values}], shares of each step. */
export function stackedBars({ title, steps, parts, format, at = null }) {
  if (!steps.length) return null;
  const shown = parts.filter((part) => part.values.some((value) => value > 0));
  const totals = steps.map((_, i) => shown.reduce((sum, part) => sum + (part.values[i] ?? 0), 0));
  const frame = { ...frameOf(steps, [0, 1], true), pad: 0.5 };
  const drawn = (x, y) => {
    const width = Math.max(1, Math.min(40, Math.abs(x(1) - x(0)) * 0.86));
    return steps.map((step, i) => {
      let below = 0;
      return shown.map((part) => {
        const share = totals[i] ? (part.values[i] ?? 0) / totals[i] : 0;
        const bar = s("rect", { class: part.colour, x: x(step) - width / 2, width, y: y(below + share), height: Math.max(0, y(below) - y(below + share)) });
        below += share;
        return share ? bar : null;
      });
    });
  };
  const values = (step) => {
    const i = step === null ? steps.length - 1 : nearest(steps, step);
    return shown.map((part) => ({ ...part, value: part.values[i] ?? 0 }));
  };
  return figure({ title, frame, format, drawn, values, at, percentAxis: true });
}

function figure({ title, frame, format, drawn, values, at, percentAxis = false }) {
  const told = h("ul", { class: "told" });
  const place = h("span", { class: "place" });
  const drawing = s("svg", { role: "img", tabindex: "0", height: HEIGHT });
  const box = h("div", { class: "plot" }, drawing);
  let scale = null;
  let width = 0;
  let line = null;

  function say(step) {
    place.textContent = step === null ? "" : `step ${step}${at?.(step) ?? ""}`;
    put(told, values(step).map((one) => h("li", { class: one.colour }, one.name ? [h("i", { "aria-hidden": "true" }), h("span", { title: one.name }, one.name), " "] : null, h("b", {}, format(one.value)))));
    if (scale && line) {
      line.setAttribute("visibility", step === null ? "hidden" : "visible");
      if (step !== null) for (const end of ["x1", "x2"]) line.setAttribute(end, scale(step));
    }
  }

  function draw() {
    const pad = frame.pad ?? 0;
    const x = linear(frame.x0 - pad, frame.x1 + pad, LEFT, width - RIGHT);
    const y = linear(frame.y0, frame.y1, HEIGHT - BOTTOM, TOP);
    scale = x;
    line = s("line", { class: "cross", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
    const isPercent = percentAxis || format === percent;
    const axis = (value) => (isPercent ? `${Number((value * 100).toPrecision(3))} %` : tickText(value, frame.unit));
    drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    put(
      drawing,
      frame.ticks.map((tick) => [
        s("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(tick), y2: y(tick) }),
        s("text", { x: LEFT - 6, y: y(tick) + 3.5, "text-anchor": "end" }, axis(tick)),
      ]),
      [...new Set([frame.x0, frame.x1])].map((step, i) =>
        s("text", { x: x(step), y: HEIGHT - 4, "text-anchor": pad ? "middle" : i ? "end" : "start" }, String(step))),
      drawn(x, y),
      line,
    );
    drawing.setAttribute("aria-label", `${title}, steps ${frame.x0} to ${frame.x1}; at the end: ${values(null).map((one) => `${one.name ?? ""} ${format(one.value)}`).join(", ")}`);
  }

  const point = (step) => pointing.dispatchEvent(new CustomEvent("step", { detail: step }));
  drawing.addEventListener("pointermove", (event) => {
    const share = (event.clientX - drawing.getBoundingClientRect().left - LEFT) / (width - LEFT - RIGHT);
    point(Math.max(frame.x0, Math.min(frame.x1, Math.round(frame.x0 + share * (frame.x1 - frame.x0)))));
  });
  drawing.addEventListener("pointerleave", () => point(null));
  drawing.addEventListener("blur", () => point(null));
  let keyed = frame.x1;
  drawing.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    keyed = Math.max(frame.x0, Math.min(frame.x1, keyed + by));
    point(keyed);
  });
  const element = h("figure", { class: "chart" }, h("figcaption", {}, h("span", {}, title), place), told, box);
  const heard = (event) => { if (element.isConnected) say(event.detail); else pointing.removeEventListener("step", heard); };
  pointing.addEventListener("step", heard);
  new ResizeObserver(([entry]) => {
    const found = Math.round(entry.contentRect.width);
    if (found && found !== width) { width = found; draw(); say(null); }
  }).observe(box);
  say(null);
  return element;
}

/** A curve without axes, for a line of a table. */
export function sparkline(values, width = 120, height = 24) {
  const known = (values ?? []).filter((value) => value !== null);
  if (known.length < 2) return h("span", { class: "faint" }, "–");
  const x = linear(0, values.length - 1, 1, width - 1);
  const y = linear(Math.min(...known), Math.max(...known), height - 3, 3);
  return s(
    "svg",
    { class: "spark c0", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `reward from ${number(known[0])} to ${number(known.at(-1))}` },
    curve(values.map((value, i) => ({ x: i, y: value })), x, y),
  );
}

function curve(points, x, y) {
  let path = "";
  let isPenDown = false;
  for (const point of points) {
    if (point.y === null || point.y === undefined) { isPenDown = false; continue; }
    path += `${isPenDown ? "L" : "M"}${x(point.x).toFixed(1)},${y(point.y).toFixed(1)}`;
    isPenDown = true;
  }
  const alone = points.length === 1 && isPenDown ? s("circle", { class: "dot", cx: x(points[0].x), cy: y(points[0].y), r: 2.5 }) : null;
  return [s("path", { class: "line", d: path }), alone];
}

/** Points with the interval of each; a thin line joins them. */
function dots(points, x, y) {
  return points.filter((p) => p.y !== null && p.y !== undefined).map((p, i, all) => [
    i ? s("line", { class: "join", x1: x(all[i - 1].x), y1: y(all[i - 1].y), x2: x(p.x), y2: y(p.y) }) : null,
    p.low !== undefined ? s("line", { class: "whisker", x1: x(p.x), x2: x(p.x), y1: y(p.low), y2: y(p.high) }) : null,
    s("circle", { class: "dot", cx: x(p.x), cy: y(p.y), r: 3 }),
  ]);
}

function valueAt(points, step) {
  const known = points.filter((point) => point.y !== null && point.y !== undefined);
  if (step === null) return known.at(-1)?.y ?? null;
  const found = known.filter((point) => point.x <= step).at(-1);
  return found ? found.y : null;
}

function nearest(steps, step) {
  return steps.reduce((best, one, i) => (Math.abs(one - step) < Math.abs(steps[best] - step) ? i : best), 0);
}

function frameOf(xs, ys, fromZero) {
  let low = ys.reduce((a, b) => Math.min(a, b), fromZero ? 0 : Infinity);
  let high = ys.reduce((a, b) => Math.max(a, b), -Infinity);
  if (high - low <= FLAT * Math.max(Math.abs(low), Math.abs(high))) {
    const room = Math.abs(high) * 0.1 || 1;
    low -= fromZero ? 0 : room;
    high += room;
  }
  const unit = niceUnit((high - low) / 2);
  const first = Math.floor(low / unit + 1e-9);
  const last = Math.ceil(high / unit - 1e-9);
  const ticks = [];
  for (let i = first; i <= last; i += 1) ticks.push(i * unit);
  return { x0: xs.reduce((a, b) => Math.min(a, b)), x1: xs.reduce((a, b) => Math.max(a, b)), y0: first * unit, y1: last * unit, ticks, unit };
}

/** With the digits that tell it from the next one, `unit` away. */
function tickText(value, unit) {
  const size = Math.abs(value);
  if (size !== 0 && (unit < 1e-5 || size >= 1e7)) return value.toExponential(1);
  return value.toLocaleString("en", { maximumFractionDigits: Math.max(0, 1 - Math.floor(Math.log10(unit))) });
}

function niceUnit(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 2.5, 5, 10].map((by) => by * power).find((unit) => unit >= rough * 0.999);
}

function linear(from, to, low, high) {
  const span = to - from || 1;
  return (value) => (to === from ? (low + high) / 2 : low + ((value - from) / span) * (high - low));
}
