/** Which token of a step may read which: a row and a column for every node, the text before as the first column. */

import { shape } from "../common/dom.js";
import { brief } from "../common/format.js";

/** @import { Tree } from "../stream/messages.js" */

const CELL = 17;
const LABEL = 150;
const BEFORE = 92;
const LEFT = LABEL + BEFORE;

/**
 * @typedef {object} Masked
 * @property {Tree} tree
 * @property {number[]} path accepted nodes
 * @property {Record<number, string>} words text by token id
 */

/** @param {Masked} step */
export function attentionMask({ tree, path, words }) {
  const size = tree.tokens.length;
  const svg = shape("svg", { width: LEFT + size * CELL + 2, height: (size + 1) * CELL + 2, "aria-hidden": "true" });
  svg.append(shape("text", { x: LABEL + 4, y: 12, class: "head" }, "text before"));
  for (let node = 0; node < size; node++) {
    const middle = { x: LEFT + (node + 0.5) * CELL, y: 12, class: "head", "text-anchor": "middle" };
    svg.append(shape("text", middle, String(node + 1)));
  }
  for (const [node, token] of tree.tokens.entries()) {
    const kept = node === 0 || path.includes(node);
    svg.append(row(tree, node, `${node + 1} ${brief(words[token] ?? `#${token}`)}`, kept));
  }
  return svg;
}

/**
 * @param {Tree} tree
 * @param {number} node
 * @param {string} label
 * @param {boolean} kept
 */
function row({ tokens, parents }, node, label, kept) {
  const all = LEFT + tokens.length * CELL - LABEL;
  const group = shape("g", { class: kept ? "row yes" : "row", transform: `translate(0 ${(node + 1) * CELL})` });
  group.append(shape("text", { x: 0, y: 12 }, label));
  group.append(shape("rect", { x: LABEL, y: 1, width: all, height: CELL - 2 }));
  group.append(shape("rect", { x: LABEL, y: 1, width: BEFORE - 2, height: CELL - 2, class: "open" }));
  for (let at = node; at >= 0; at = parents[at]) {
    group.append(shape("rect", { x: LEFT + at * CELL + 1, y: 1, width: CELL - 2, height: CELL - 2, class: "open" }));
  }
  return group;
}
