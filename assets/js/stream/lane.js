/** One answer as it came: its steps, and when they were over. Plain values; no DOM. */

import { sourcesOf } from "./step-facts.js";

/** @import { BriefStep, Step } from "./messages.js" */

/**
 * A lane of a run.
 * @template {BriefStep} [S=Step]
 * @typedef {object} Lane
 * @property {readonly S[]} steps
 * @property {readonly number[]} ends seconds at which step i - 1 was over; ends[0] is when the first one began
 * @property {readonly number[]} totals tokens after that step
 * @property {number} seconds of the whole lane
 * @property {number} tokens
 */

/** The method that guesses nothing. */
export const PLAIN = "autoregressive";

/** @type {Lane<never>} */
export const EMPTY_LANE = { steps: [], ends: [0], totals: [0], seconds: 0, tokens: 0 };

/**
 * The lane with more steps at its end.
 * @template {BriefStep} S
 * @param {Lane<S>} lane
 * @param {readonly S[]} fresh
 * @returns {Lane<S>}
 */
export function extend(lane, fresh) {
  if (!fresh.length) return lane;
  let { seconds, tokens } = lane;
  const ends = [...lane.ends];
  const totals = [...lane.totals];
  if (!lane.steps.length) {
    seconds = fresh[0].prefill ?? 0;
    ends[0] = seconds;
  }
  for (const step of fresh) {
    seconds += step.seconds;
    tokens += step.sources.length;
    ends.push(seconds);
    totals.push(tokens);
  }
  return { steps: [...lane.steps, ...fresh], ends, totals, seconds, tokens };
}

/**
 * How many of the lane's steps were over after so many seconds.
 * @param {Lane<BriefStep>} lane
 * @param {number} time
 */
export function stepsAt({ ends }, time) {
  const running = ends.findIndex((end, i) => i > 0 && end > time);
  return running < 0 ? ends.length - 1 : running - 1;
}

/**
 * The steps after which the lane held so many tokens; -1 if it never did.
 * @param {Lane<BriefStep>} lane
 * @param {number} tokens
 */
export function passesTo({ totals }, tokens) {
  return totals.findIndex((total) => total >= tokens);
}

/**
 * Every source that offered a token, for each token of a step; the first one has the credit.
 * @param {Step} step
 */
export function offersOf({ sources, tree, path = [] }) {
  return sources.map((source, i) => (tree && i < path.length ? sourcesOf(tree, path[i]) : [source]));
}

/** Tokens by source, of the sources that offered them first and of all that did. Steps that come are counted on. */
export class Tally {
  constructor() {
    /** @type {Map<string, number>} */
    this.first = new Map();
    /** @type {Map<string, number>} */
    this.every = new Map();
    /** @type {readonly Step[]} */
    this.counted = [];
  }

  /** @param {readonly Step[]} steps those that were counted last and more, or others */
  count(steps) {
    if (steps.length < this.counted.length || steps[0] !== this.counted[0]) {
      this.first.clear();
      this.every.clear();
      this.counted = [];
    }
    for (const step of steps.slice(this.counted.length)) {
      for (const source of step.sources) more(this.first, source);
      for (const source of offersOf(step).flat()) more(this.every, source);
    }
    this.counted = steps;
  }
}

/**
 * @param {Map<string, number>} tokens
 * @param {string} source
 */
function more(tokens, source) {
  tokens.set(source, (tokens.get(source) ?? 0) + 1);
}

/**
 * The text that was written before a step.
 * @param {Lane} lane
 * @param {number} step
 */
export function textBefore({ steps }, step) {
  return steps
    .slice(0, step)
    .flatMap(({ pieces }) => pieces.map(([, text]) => text))
    .join("");
}

/**
 * The text of the first tokens of a step. A character that is not wholly theirs is U+FFFD.
 * @param {Lane} lane
 * @param {number} step
 * @param {number} tokens
 */
export function textOf({ steps, totals }, step, tokens) {
  const told = steps.slice(0, step).flatMap(({ pieces }) => pieces.map(([length]) => length));
  let at = told.reduce((sum, length) => sum + length, 0) - totals[step]; // below 0: begun by tokens before the step
  let text = "";
  for (const [length, piece] of steps[step].pieces) {
    if (at >= tokens) break;
    text += at >= 0 && at + length <= tokens ? piece : "\ufffd";
    at += length;
  }
  return at < tokens ? `${text}\ufffd` : text;
}
