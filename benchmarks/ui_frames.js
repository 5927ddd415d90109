// Evaluated in the page by benchmarks.ui: frames a second while a tenth of the squares change in each.

const STATES = ["claimed", "ready", "pulling", "scheduling", "failed"];
const MEASURED_MS = 3000;
const any = () => STATES[Math.floor(Math.random() * STATES.length)];
const main = () => document.getElementById("main");

function countFrames(show) {
  return new Promise((done) => {
    let frames = 0;
    const began = performance.now();
    const next = () => {
      show();
      frames += 1;
      const took = performance.now() - began;
      if (took < MEASURED_MS) requestAnimationFrame(next);
      else done((1000 * frames) / took);
    };
    requestAnimationFrame(next);
  });
}

/** The page's own squares. */
async function pageFrames(count) {
  const { cellMap } = await import("/static/cells.js");
  const map = cellMap({ look: (cell) => `--s-${cell.state}`, tell() {}, open() {}, label: () => "" });
  const cells = Array.from({ length: count }, () => ({ state: "ready" }));
  main().replaceChildren(map.element);
  return countFrames(() => map.show(cells.map((cell) => (Math.random() < 0.1 ? { state: any() } : cell))));
}

/** An element for each. */
function elementFrames(count) {
  const box = document.createElement("div");
  box.style.cssText = "display: flex; flex-wrap: wrap";
  const cells = Array.from({ length: count }, () => {
    const cell = document.createElement("i");
    cell.style.cssText = "width: 21px; height: 21px; margin: 0 1px 1px 0; background: var(--ink)";
    box.append(cell);
    return cell;
  });
  main().replaceChildren(box);
  return countFrames(() => {
    for (const cell of cells) if (Math.random() < 0.1) cell.className = `s-${any()}`;
  });
}
