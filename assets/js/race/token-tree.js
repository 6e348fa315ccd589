/** A step's token tree as SVG: the accepted path in front, rejected guesses faded, the model's own pick at its end. */

import { shape } from "../common/dom.js";
import { brief, PART, visible } from "../common/format.js";
import { bonusOf, classOf, sourcesOf, wordOf } from "../stream/step-facts.js";

/** @import { Step } from "../stream/messages.js" */
/** @import { StepFacts } from "../stream/step-facts.js" */

const ROW = 34;
const HIGH = 26;
const GAP = 18;
const FATES = { root: "the last token so far", yes: "accepted", no: "not accepted", pick: "the model's own pick" };

/** @typedef {keyof typeof FATES} Fate */

/**
 * A box of the drawing.
 * @typedef {object} Box
 * @property {string} text
 * @property {Fate} fate
 * @property {Box | null} parent
 * @property {number} depth
 * @property {number} row
 * @property {string[]} sources
 * @property {number | null} chance
 */

/** @typedef {{ lefts: number[], rows: Map<number, number> }} Grid left edges by depth, row numbers without holes */

/**
 * @param {StepFacts} facts
 * @param {Step} step
 * @param {Record<number, string>} words text by token id
 * @param {Map<string, string>} names of the sources
 */
export function tokenTree(facts, step, words, names) {
  const boxes = boxesOf(facts, bonusOf(step), words);
  const grid = { lefts: columns(boxes), rows: rowsOf(boxes) };
  const size = { width: grid.lefts[grid.lefts.length - 1], height: grid.rows.size * ROW + 4 };
  const svg = shape("svg", { ...size, "aria-hidden": "true" });
  const [front, behind] = [boxes.filter(onPath), boxes.filter((box) => !onPath(box))];
  for (const box of [...behind, ...front]) {
    if (box.parent) svg.append(edge(box.parent, box, grid));
  }
  for (const box of boxes) svg.append(drawn(box, grid, names));
  return svg;
}

/** @param {Box} box */
const onPath = ({ fate }) => fate === "yes" || fate === "pick";

/**
 * Every node but those of the pool, and the model's own pick after the accepted path.
 * @param {StepFacts} facts
 * @param {number | undefined} bonus that pick, where there is one
 * @param {Record<number, string>} words
 */
function boxesOf({ tree, path, pool }, bonus, words) {
  /** @type {Box[]} */
  const nodes = [];
  for (const [node, token] of tree.tokens.entries()) {
    const parent = node ? nodes[tree.parents[node]] : null;
    nodes.push({
      text: wordOf(words, token),
      fate: fateOf(node, path),
      parent,
      depth: parent ? parent.depth + 1 : 0,
      row: tree.rows[node],
      sources: sourcesOf(tree, node),
      chance: tree.chances?.[node] ?? null,
    });
  }
  const shown = nodes.filter((_, node) => !pool.has(node));
  if (bonus !== undefined) shown.push(pickAfter(nodes[path.at(-1) ?? 0], wordOf(words, bonus)));
  return shown;
}

/**
 * @param {number} node
 * @param {number[]} path
 * @returns {Fate}
 */
function fateOf(node, path) {
  if (node === 0) return "root";
  return path.includes(node) ? "yes" : "no";
}

/**
 * @param {Box} parent
 * @param {string} text
 * @returns {Box}
 */
function pickAfter(parent, text) {
  return { text, fate: "pick", parent, depth: parent.depth + 1, row: parent.row, sources: ["model"], chance: null };
}

/** @param {string} text */
const partly = (text) => (text.includes("\ufffd") ? ` (${PART}: bytes of a character that other tokens complete)` : "");

/** @param {Box} box */
const width = ({ text, chance }) => 18 + 7.3 * brief(text).length + (chance === null ? 0 : 34);

/** @param {Box[]} boxes */
function columns(boxes) {
  const lefts = [2];
  const deepest = Math.max(...boxes.map((box) => box.depth));
  for (let depth = 0; depth <= deepest; depth++) {
    const columnWidth = Math.max(...boxes.filter((box) => box.depth === depth).map(width));
    lefts.push(lefts[depth] + columnWidth + GAP);
  }
  return lefts;
}

/** @param {Box[]} boxes */
function rowsOf(boxes) {
  const used = [...new Set(boxes.map((box) => box.row))].sort((a, b) => a - b);
  return new Map(used.map((row, i) => [row, i]));
}

/**
 * @param {Box} box
 * @param {Grid} grid
 */
function place({ depth, row }, { lefts, rows }) {
  return { x: lefts[depth], y: 4 + (rows.get(row) ?? 0) * ROW };
}

/**
 * @param {Box} parent
 * @param {Box} box
 * @param {Grid} grid
 */
function edge(parent, box, grid) {
  const from = place(parent, grid);
  const to = place(box, grid);
  const [x0, y0] = [from.x + width(parent), from.y + HIGH / 2];
  const [x1, y1] = [to.x, to.y + HIGH / 2];
  const bend = to.x - GAP / 2;
  const d = `M${x0} ${y0}H${bend - 5}C${bend + 3} ${y0} ${bend - 5} ${y1} ${x1} ${y1}`;
  return shape("path", { d, class: `edge ${box.fate}` });
}

/**
 * @param {Box} box
 * @param {Grid} grid
 * @param {Map<string, string>} names
 */
function drawn(box, grid, names) {
  const { x, y } = place(box, grid);
  const group = shape("g", { class: `node ${box.fate} ${classOf(box.sources[0])}`, transform: `translate(${x} ${y})` });
  group.append(shape("rect", { width: width(box), height: HIGH, rx: 6 }));
  group.append(shape("text", { x: 9, y: 17 }, brief(box.text)));
  if (box.chance !== null) {
    const right = { x: width(box) - 7, y: 17, class: "chance", "text-anchor": "end" };
    group.append(shape("text", right, box.chance.toFixed(2)));
  }
  const guessed = box.fate === "yes" || box.fate === "no";
  const who = guessed ? `, from ${box.sources.map((source) => names.get(source)).join(", ")}` : "";
  group.append(shape("title", {}, `${visible(box.text)}${partly(box.text)}: ${FATES[box.fate]}${who}`));
  return group;
}
