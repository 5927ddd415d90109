// The tokens of an attempt as the learner gets them: those that were sampled coloured, all others faint.

import { h, number, put, visible } from "/static/dom.js";

const CHUNK = 1000;
const LEVELS = 5;

// What a token can be coloured by: its size, of (segment, i), null where it is not known; where the levels begin; and
// what the first and the last of these mean.
const SCALES = {
  logprob: { title: "logprob", size: (s, i) => -(s.logprobs[i] ?? 0), from: [1, 2, 3, 4], ends: ["likely", "surprising"] },
  ratio: { title: "ratio of trainer to engine", size: (s, i) => (logRatio(s, i) === null ? null : Math.abs(logRatio(s, i))), from: [0.01, 0.05, 0.2, 0.7], ends: ["alike", "apart"] },
  entropy: { title: "entropy", size: (s, i) => s.entropies?.[i] ?? null, from: [0.1, 0.5, 1, 2], ends: ["certain", "open"] },
};

const logRatio = (segment, i) => {
  const [trainer, engine] = [segment.trainer_logprobs?.[i] ?? null, segment.logprobs[i]];
  return trainer === null || engine === null ? null : trainer - engine;
};

export function tokensOf({ segments, texts, without_texts: without }) {
  const told = h("p", { class: "detail", role: "status" }, "Point at a token, or walk with the arrow keys.");
  const box = h("div", { class: "token-box", tabindex: "0", role: "group", "aria-label": "Tokens" });
  const known = Object.entries(SCALES).filter(([name]) => name === "logprob" || segments.some((segment) => segment.entropies));
  const choices = [...known.map(([name, { title }]) => [name, title]), ["version", "weight version"]];
  const pick = h("select", { "aria-label": "Colour by", onchange: () => draw() }, choices.map(([value, title]) => h("option", { value }, `colour by ${title}`)));
  const scale = h("span", { class: "scale", "aria-hidden": "true" });
  const versions = [...new Set(segments.flatMap((segment) => segment.versions.filter((version) => version >= 0)))].sort((a, b) => a - b);
  let at = null;

  const text = (segment, i) => texts[segment.ids[i]] ?? String(segment.ids[i]);

  function level(segment, i) {
    if (!segment.mask[i]) return "unsampled";
    if (pick.value === "version") return `v${versions.indexOf(segment.versions[i]) % LEVELS}`;
    const { size, from } = SCALES[pick.value];
    const own = size(segment, i);
    return own === null ? "unsampled" : `l${from.filter((least) => own >= least).length}`;
  }

  function token(segment, i, which) {
    const shown = text(segment, i);
    return h("span", { class: `token ${level(segment, i)}`, "data-at": `${which}:${i}` }, without ? `${shown} ` : visible(shown).replaceAll("\n", "↵\n"));
  }

  function draw() {
    const [low, high] = SCALES[pick.value]?.ends ?? [];
    put(scale, low ? [low, Array.from({ length: LEVELS }, (_, i) => h("i", { class: `l${i}` })), high] : null);
    put(box, segments.map((segment, which) => [
      segments.length > 1 ? h("h3", {}, `segment ${which + 1} of ${segments.length}`) : null,
      Array.from({ length: Math.ceil(segment.ids.length / CHUNK) }, (_, chunk) =>
        h("div", { class: "chunk" }, segment.ids.slice(chunk * CHUNK, (chunk + 1) * CHUNK).map((_, i) => token(segment, chunk * CHUNK + i, which)))),
    ]));
  }

  function point(element) {
    at?.classList.remove("at");
    at = element;
    at.classList.add("at");
    const [which, i] = at.dataset.at.split(":").map(Number);
    const segment = segments[which];
    put(told, h("b", { class: "mono" }, JSON.stringify(text(segment, i))), ` · token ${segment.ids[i]} at ${i}`, segment.mask[i] ? ` · sampled by weights v${segment.versions[i]}, logprob ${number(segment.logprobs[i])}${trained(segment, i)}` : " · not sampled, not trained on");
  }

  function trained(segment, i) {
    if (!segment.entropies) return "";
    const log = logRatio(segment, i);
    return log === null ? " · not trained on" : ` · trainer's ${number(segment.trainer_logprobs[i])}, ratio ${Math.exp(log).toFixed(4)}, entropy ${number(segment.entropies[i])}`;
  }

  box.addEventListener("pointerover", (event) => { if (event.target.dataset.at) point(event.target); });
  box.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const all = [...box.querySelectorAll(".token")];
    const next = all[at ? all.indexOf(at) + by : 0];
    if (next) { point(next); next.scrollIntoView({ block: "nearest" }); }
  });
  draw();
  return [h("div", { class: "bar" }, pick, scale), without ? h("p", { class: "sub" }, without) : null, told, box];
}
