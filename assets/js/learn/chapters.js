/** What the chapters of the tour say. Every figure and every quoted token is read off the race or was measured here. */

import { ending, list, milliseconds, plural, prose, ratio, visible } from "../common/format.js";
import { withOthers } from "../common/looks.js";
import { textBefore, textOf } from "../stream/lane.js";
import { bonusOf, factsOf, sourcesOf, wordOf } from "../stream/step-facts.js";
import { bars } from "./bars.js";
import { methodChapters } from "./method-chapters.js";
import { sample } from "./sample.js";
import { isDrawn, noise, precision, temperature } from "./sampling-chapters.js";
import { hub, trees } from "./tree-chapters.js";
import { secondsOver } from "./what-if.js";

/** @import { Look } from "../common/tab.js" */
/** @import { RaceView } from "../race/race-view.js" */
/** @import { Lane } from "../stream/lane.js" */
/** @import { Snapshot, Step, Tree } from "../stream/messages.js" */
/** @import { Turn } from "../stream/reducer.js" */
/** @import { Divergence } from "./sampling-chapters.js" */

const EARLY = 8; // the first guesses of an answer are odd ones
const MOST_TOKENS = 64; // of a bar
const CONTEXT = 80; // characters: some texts have no spaces
const FREE = 1.5; // times as long

const PICKED = "The model, asked at each of these places, picked the very same";
const TESTED = "Each was accepted with a chance that keeps the model's distribution";

const SPOKEN = new Map([
  ["retrieval", "a datastore"],
  ["ngram", "an n-gram"],
  ["recycled", "what was likely here before"],
  ["automaton", "the suffix automaton"],
]);

/**
 * cost: [tokens, seconds of a forward pass over them] as measured on this machine. drafts: a recorded race with draft
 * trees.
 * @typedef {object} Facts
 * @property {[number, number][]} cost
 * @property {string[]} badges
 * @property {Look[]} legend
 * @property {Divergence | null} divergence
 * @property {Snapshot | null} drafts
 */

/**
 * A button that shows a part of the Race tab. prepare: what to do there first.
 * @typedef {{ name: string, selector: string, prepare?: (view: RaceView) => void }} Pointer
 */

/** @typedef {{ title: string, text: string[], figure?: HTMLElement, pointer?: Pointer }} Chapter */

/**
 * A step that a chapter speaks of. drawn: its drafts were tested by their chances, not by what the model picks.
 * @typedef {{ lane: Lane, index: number, step: Step, words: Record<number, string>, drawn: boolean }} Example
 */

/**
 * @param {Facts} facts
 * @param {Turn | null} race one that is over
 * @param {Turn | null} drafts the recorded one with draft trees
 * @returns {Chapter[]}
 */
export function chapters(facts, race, drafts) {
  return [
    cost(facts.cost),
    accepted(facts, exampleOf(race, best)),
    rejected(facts, exampleOf(race, missed)),
    unchanged(race),
    ...methodChapters(race),
    trees(race, drafts, facts.legend),
    hub(race, drafts),
    temperature(race),
    noise(race),
    precision(facts),
  ];
}

/**
 * @param {[number, number][]} table
 * @returns {Chapter}
 */
function cost(table) {
  const lesson = prose`To write one token, the processor has to fetch every weight of the model from memory. That
    takes most of the time; the arithmetic itself is quick. Once the weights are there, a few more tokens can be
    computed with them almost for free: on a GPU hundreds, on a few CPU cores a handful.`;
  return {
    title: `Why a wide pass is free ${table.length && isFree(table) ? "here" : "on a GPU and not here"}`,
    text: table.length ? [lesson, measured(table)] : [lesson],
    figure: table.length ? widths(table) : undefined,
    pointer: {
      name: "Show the forward passes",
      selector: "#stage-race [data-id=figures]",
      prepare: (view) => view.turnTo("passes"),
    },
  };
}

/**
 * Whether a pass over as many tokens as are shown takes hardly longer than one over a single token.
 * @param {[number, number][]} table
 */
const isFree = (table) => secondsOver(table, MOST_TOKENS) < FREE * secondsOver(table, 1);

/** @param {[number, number][]} table */
function measured(table) {
  const one = secondsOver(table, 1);
  const eight = secondsOver(table, 8);
  const lesson =
    eight < 3 * one
      ? "So one pass over several guesses takes less time than a pass for each token."
      : "Arithmetic is slow here, so the budget guesses less than it would on another processor.";
  return prose`Measured on this machine: a forward pass over 1 token takes ${milliseconds(one)}, over 8 tokens
    ${milliseconds(eight)}. That is ${ratio(eight / one)} times as long for 8 times the tokens. ${lesson}`;
}

/** @param {[number, number][]} table */
function widths(table) {
  const shown = table.filter(([n]) => n <= MOST_TOKENS);
  return bars(
    shown.map(([n, seconds]) => ({ name: plural(n, "token"), length: seconds, label: milliseconds(seconds) })),
  );
}

/**
 * @param {Turn | null} race
 * @param {(steps: readonly Step[]) => number} choose -1 where no step will do
 * @returns {Example | null}
 */
function exampleOf(race, choose) {
  const lane = race?.lanes.method;
  const index = lane ? choose(lane.steps) : -1;
  if (!lane || index < 0) return null;
  return { lane, index, step: lane.steps[index], words: race.end?.words ?? {}, drawn: isDrawn(race) };
}

/**
 * The step that gained most.
 * @param {readonly Step[]} steps
 */
function best(steps) {
  /** @param {Step} step */
  const gained = (step) => step.path?.length ?? 0;
  const top = steps.reduce((most, step, i) => (gained(step) > gained(steps[most]) ? i : most), 0);
  return gained(steps[top]) ? top : -1;
}

/**
 * An early step whose guesses all failed.
 * @param {readonly Step[]} steps
 */
function missed(steps) {
  const later = steps.findIndex((step, i) => i >= EARLY && failed(step));
  return later < 0 ? steps.findIndex(failed) : later;
}

/** @param {Step} step */
const failed = ({ tree, path }) => Boolean(tree && !path?.length && tree.tokens.length > 1 + tree.pool.length);

/**
 * Where a step stands, by the words before it.
 * @param {Pick<Example, "lane" | "index">} example
 */
export function context({ lane, index }) {
  const before = textBefore(lane, index).trimEnd().split(/\s+/).slice(-6).join(" ");
  return before ? `after “… ${ending(before, CONTEXT).replace(/^… /, "")}”` : "at the start of the answer";
}

/**
 * Who guessed these nodes.
 * @param {Facts} facts
 * @param {Tree} tree
 * @param {number[]} nodes
 */
export function guessers({ legend }, tree, nodes) {
  const used = new Set(nodes.map((node) => sourcesOf(tree, node)[0]));
  const looks = withOthers(legend, used).filter(({ source }) => used.has(source));
  return list(looks.map(({ source, name }) => SPOKEN.get(source) ?? `the ${name.toLowerCase()}`));
}

/** @param {string} text */
const flat = (text) => visible(text.replace(/\s+/g, " ").trim()).replaceAll("·", " ");

/**
 * @param {number} step
 * @returns {Pointer}
 */
const stepPointer = (step) => ({
  name: "Show this step",
  selector: "#stage-race [data-id=inside]",
  prepare: (view) => view.links.look(step),
});

/**
 * @param {Facts} facts
 * @param {Example | null} example
 * @returns {Chapter}
 */
function accepted(facts, example) {
  const title = "A guess that was right";
  const lesson = prose`While the answer grows, dictionaries collect which tokens followed which. Before each forward
    pass they guess what comes next, and the model checks all guesses in that one pass.`;
  if (!example) {
    return { title, text: [lesson, "Here an accepted guess of your race is shown, once there is one."] };
  }
  const { lane, index, step, words, drawn } = example;
  const { tree, path } = factsOf(step);
  const joined = path.map((node) => words[tree.tokens[node]] ?? "").join("");
  const guessed = joined.includes("\ufffd") ? textOf(lane, index, path.length) : joined; // bytes of characters
  const own = bonusOf(step) === undefined ? ", and there the answer ended" : ", and one token of its own on top";
  const story = prose`In step ${index + 1}, ${context(example)}, ${guessers(facts, tree, path)} guessed
    “${flat(guessed)}”. ${drawn ? TESTED : PICKED}:
    ${plural(path.length, "guess", "guesses")} accepted${own}.
    ${plural(step.sources.length, "token")} for one pass.`;
  return { title, text: [lesson, story], figure: sample(lane, index, words, path), pointer: stepPointer(index) };
}

/**
 * What a wrong guess costs. A budget that weighs chances is not of a fixed size.
 * @param {Pick<Tree, "chances">} tree
 */
export const priceOf = ({ chances }) =>
  chances ? "a slightly wider pass, and the budget stops guessing where that does not pay" : "a wider pass";

/**
 * @param {Facts} facts
 * @param {Example | null} example
 * @returns {Chapter}
 */
function rejected(facts, example) {
  const title = "A guess that was wrong";
  if (!example) {
    const text = prose`A wrong guess is thrown away, and the model's own pick is written instead. The pass was not
      wasted: it gave the one token that plain decoding would have given.`;
    return { title, text: [text] };
  }
  const { lane, index, step, words, drawn } = example;
  const { tree, guesses } = factsOf(step);
  const first = guesses.filter((node) => tree.parents[node] === 0);
  const shown = first.slice(0, 3);
  /** @param {number} token */
  const word = (token) => `“${visible(wordOf(words, token))}”`;
  const story = prose`In step ${index + 1}, ${context(example)}, ${guessers(facts, tree, first)} guessed
    ${list(shown.map((node) => word(tree.tokens[node])))}. The model ${drawn ? "accepted none and drew" : "picked"}
    ${word(step.picks[0])}.`;
  const lesson = prose`So the guess was thrown away and the pick was written. A wrong guess never reaches the text;
    all it costs is ${priceOf(tree)}.`;
  return { title, text: [story, lesson], figure: sample(lane, index, words, shown), pointer: stepPointer(index) };
}

/**
 * @param {Turn | null} race
 * @returns {Chapter}
 */
function unchanged(race) {
  const figures = race?.end?.figures;
  const same = figures && "level" in figures && figures.whole && figures.differs === null;
  const badge = isDrawn(race)
    ? "The method of this race tests its drafts by their chances instead: another draw of the same distribution."
    : "The badge under the bars says whether both answers are the same, token by token.";
  return {
    title: "Why the text does not change",
    text: [
      prose`The guesses decide nothing. At every place the model picks its own next token from everything before it,
        just as in plain decoding; a guess only lets that pick be computed earlier. Where guess and pick agree, the
        walk goes on. Where they do not, it ends, and everything behind the wrong guess is dropped.`,
      same
        ? prose`Here both answers, of ${plural(figures.plain.tokens, "token")}, were compared token by token: they are
          the same.`
        : badge,
    ],
    pointer: { name: "Show the badge", selector: "#stage-race .below" },
  };
}
