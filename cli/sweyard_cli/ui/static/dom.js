// Elements from text alone. Nothing here, or anywhere in this page, turns text into markup: it may come from a sandbox.

const SVG = "http://www.w3.org/2000/svg";
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;

/** Control characters as pictures, and marks that hide or reorder text as their code points. */
export function visible(text) {
  return String(text).replace(INVISIBLE, (character) => {
    if (character === "\n" || character === "\t") return character;
    const code = character.codePointAt(0);
    return code < 0x20 ? String.fromCodePoint(0x2400 + code) : `<U+${code.toString(16).toUpperCase().padStart(4, "0")}>`;
  });
}

/** An element: `on...` are listeners, `class` and all else attributes; null and false leave one out. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same of a drawing. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : visible(child));
  }
}

/** Replace all that is in an element. */
export function put(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

export const EVERY_OUTCOME = [
  "solved", "unsolved", "truncated", "max_turns", "agent_timeout", "agent_error", "env_infra", "eval_infra",
];

export function outcomeName(outcome) {
  return { env_infra: "sandbox failed", eval_infra: "grading failed" }[outcome] ?? outcome.replaceAll("_", " ");
}

/** A coloured dot and a word, so that colour alone says nothing. */
export function outcomeTag(outcome) {
  return h("span", { class: `tag o-${outcome}` }, h("i", { "aria-hidden": "true" }), outcomeName(outcome));
}

/** Rollout files that could not be read, a sentence each: what is shown is without them. */
export function unreadFiles(sentences) {
  const rest = sentences.length - 3;
  return sentences.slice(0, 3).map((sentence) => h("p", { class: "missing", role: "status" }, sentence)).concat(
    rest > 0 ? h("p", { class: "missing" }, `and ${count(rest, "file")} more`) : []);
}

export const percent = (value) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(1)} %`);

export function number(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 1e7)) return value.toExponential(1);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(3)));
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds > 0 && seconds < 0.01) return "< 0.01 s";
  if (seconds < 10) return `${Number(seconds.toPrecision(2))} s`;
  const whole = Math.round(seconds);
  if (whole >= 3600) return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")} min`;
  return whole >= 60 ? `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s` : `${whole} s`;
}

export function bytes(value) {
  if (!value) return "–";
  const power = Math.min(4, Math.floor(Math.log2(value) / 10));
  return `${number(value / 1024 ** power)} ${["B", "KiB", "MiB", "GiB", "TiB"][power]}`;
}

export function count(value, noun) {
  const ending = value === 1 ? "" : noun.endsWith("x") ? "es" : "s";
  return `${value.toLocaleString("en")} ${noun}${ending}`;
}
