// Which token of a step may read which: a row and a column for every node, the text before them as the first column.
import { brief, shape } from "./format.js";

const CELL = 17;
const LABEL = 150;
const BEFORE = 92;

// tree: as an event holds it. path: accepted nodes. words: text by token id.
export function mask({ tree, path, words }) {
  const size = tree.tokens.length;
  const left = LABEL + BEFORE;
  const svg = shape("svg", { width: left + size * CELL + 2, height: (size + 1) * CELL + 2, "aria-hidden": "true" });
  svg.append(shape("text", { x: LABEL + 4, y: 12, class: "head" }, "text before"));
  for (let node = 0; node < size; node++)
    svg.append(shape("text", { x: left + (node + 0.5) * CELL, y: 12, class: "head", "text-anchor": "middle" }, String(node + 1)));
  tree.tokens.forEach((token, node) => {
    const kept = node === 0 || path.includes(node);
    const row = shape("g", { class: kept ? "row yes" : "row", transform: `translate(0 ${(node + 1) * CELL})` });
    row.append(shape("text", { x: 0, y: 12 }, `${node + 1} ${brief(words[token] ?? `#${token}`)}`));
    row.append(shape("rect", { x: LABEL, y: 1, width: left + size * CELL - LABEL, height: CELL - 2 }));
    row.append(shape("rect", { x: LABEL, y: 1, width: BEFORE - 2, height: CELL - 2, class: "open" }));
    for (let at = node; at >= 0; at = tree.parents[at])
      row.append(shape("rect", { x: left + at * CELL + 1, y: 1, width: CELL - 2, height: CELL - 2, class: "open" }));
    svg.append(row);
  });
  return svg;
}
