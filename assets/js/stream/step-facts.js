/** A step's token tree, read for the panels that explain it. Pure. */

/** @import { Step, Tree } from "./messages.js" */

/**
 * The tree of a plain step: the last token alone.
 * @param {number} last
 * @returns {Tree}
 */
const rootOnly = (last) => ({
  tokens: [last],
  parents: [-1],
  sources: ["model"],
  chances: null,
  rows: [0],
  pool: [],
});

/**
 * @typedef {object} StepFacts
 * @property {Tree} tree
 * @property {number[]} path accepted nodes
 * @property {Set<number>} pool nodes that were scored but are no guesses
 * @property {number[]} guesses nodes
 */

/**
 * @param {Step} step
 * @returns {StepFacts}
 */
export function factsOf({ last = 0, tree = rootOnly(last), path = [] }) {
  const pool = new Set(tree.pool);
  const guesses = [...tree.tokens.keys()].filter((node) => node > 0 && !pool.has(node));
  return { tree, path, pool, guesses };
}

/**
 * The model's own pick after the accepted path; undefined where a guess ended the answer: nothing is written after it.
 * @param {Step} step
 */
export const bonusOf = ({ picks, sources, path = [] }) =>
  sources.length > path.length ? picks[path.length] : undefined;

/**
 * The sources that had guessed a node.
 * @param {Tree} tree
 * @param {number} node
 */
export const sourcesOf = (tree, node) => tree.sources[node].split(",");

/**
 * The class of what came from a source: its colour, underline and dash (visual/palette.py). No other class begins so.
 * @param {string} source
 */
export const classOf = (source) => `source-${source}`;

/**
 * Every source that a step tells of: those of its tokens, of its guesses, and of n-grams that were held.
 * @param {Step} step
 */
export function toldOf({ sources, tree, held = {} }) {
  const guessed = tree ? [...tree.tokens.keys()].flatMap((node) => sourcesOf(tree, node)) : [];
  return new Set([...sources, ...guessed, ...Object.keys(held)]);
}

/**
 * A token's text; its number where the text is not known.
 * @param {Record<number, string>} words
 * @param {number} token
 */
export const wordOf = (words, token) => words[token] ?? `#${token}`;
