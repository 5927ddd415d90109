// The tokens of an attempt as the learner gets them: those that were sampled coloured, all others faint.

import { h, number, put, visible } from "/static/dom.js";

const CHUNK = 1000;
const LEVELS = 5;

export function tokensOf({ segments, texts, without_texts: without }) {
  const told = h("p", { class: "detail", role: "status" }, "Point at a token, or walk with the arrow keys.");
  const box = h("div", { class: "token-box", tabindex: "0", role: "group", "aria-label": "Tokens" });
  const pick = h("select", { "aria-label": "Colour by", onchange: () => draw() }, h("option", { value: "logprob" }, "colour by logprob"), h("option", { value: "version" }, "colour by weight version"));
  const versions = [...new Set(segments.flatMap((segment) => segment.versions.filter((version) => version >= 0)))].sort((a, b) => a - b);
  let at = null;

  const text = (segment, i) => texts[segment.ids[i]] ?? String(segment.ids[i]);

  function level(segment, i) {
    if (!segment.mask[i]) return "unsampled";
    if (pick.value === "version") return `v${versions.indexOf(segment.versions[i]) % LEVELS}`;
    const surprise = segment.logprobs[i] === null ? 0 : -segment.logprobs[i];
    return `l${Math.min(LEVELS - 1, Math.floor(surprise))}`;
  }

  function token(segment, i, which) {
    const shown = text(segment, i);
    return h("span", { class: `token ${level(segment, i)}`, "data-at": `${which}:${i}` }, without ? `${shown} ` : visible(shown).replaceAll("\n", "↵\n"));
  }

  function draw() {
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
    put(told, h("b", { class: "mono" }, JSON.stringify(text(segment, i))), ` · token ${segment.ids[i]} at ${i}`, segment.mask[i] ? ` · sampled by weights v${segment.versions[i]}, logprob ${number(segment.logprobs[i])}` : " · not sampled, not trained on");
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
  const scale = h("span", { class: "scale", "aria-hidden": "true" }, "likely", Array.from({ length: LEVELS }, (_, i) => h("i", { class: `l${i}` })), "surprising");
  return [h("div", { class: "bar" }, pick, scale), without ? h("p", { class: "sub" }, without) : null, told, box];
}
