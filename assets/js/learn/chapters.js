/** What the chapters of the tour say. Every figure and every quoted token is read off the race or was measured here. */

import { make } from "../common/dom.js";
import { list, milliseconds, plural, prose, ratio, visible } from "../common/format.js";
import { textBefore } from "../stream/lane.js";
import { factsOf, sourcesOf } from "../stream/step-facts.js";
import { methodChapters } from "./method-chapters.js";
import { sample } from "./sample.js";
import { secondsOver } from "./what-if.js";

/** @import { Look } from "../common/tab.js" */
/** @import { RaceView } from "../race/race-view.js" */
/** @import { Lane } from "../stream/lane.js" */
/** @import { Step, Tree } from "../stream/messages.js" */
/** @import { Turn } from "../stream/reducer.js" */

const EARLY = 8; // the first guesses of an answer are odd ones
const MOST_TOKENS = 64; // of a bar

/** @type {Record<string, string>} */
const SPOKEN = {
  retrieval: "a datastore",
  ngram: "an n-gram of the text",
  recycled: "what was likely here before",
  automaton: "the suffix automaton",
};

/**
 * cost: [tokens, seconds of a forward pass over them] as measured on this machine.
 * @typedef {{ cost: [number, number][], badges: string[], legend: Look[] }} Facts
 */

/**
 * A button that shows a part of the Race tab. prepare: what to do there first.
 * @typedef {{ name: string, selector: string, prepare?: (view: RaceView) => void }} Pointer
 */

/** @typedef {{ title: string, text: string[], figure?: HTMLElement, pointer?: Pointer }} Chapter */

/**
 * A step that a chapter speaks of.
 * @typedef {{ lane: Lane, index: number, step: Step, words: Record<number, string> }} Example
 */

/**
 * @param {Facts} facts
 * @param {Turn | null} race one that is over
 * @returns {Chapter[]}
 */
export function chapters(facts, race) {
  return [
    cost(facts.cost),
    accepted(facts, exampleOf(race, best)),
    rejected(facts, exampleOf(race, missed)),
    unchanged(race),
    ...methodChapters(race),
    temperature(),
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
    title: "Why a wide pass is free on a GPU and not here",
    text: table.length ? [lesson, measured(table)] : [lesson],
    figure: table.length ? bars(table) : undefined,
    pointer: {
      name: "Show the forward passes",
      selector: "#stage-race [data-id=figures]",
      prepare: (view) => view.turnTo("passes"),
    },
  };
}

/** @param {[number, number][]} table */
function measured(table) {
  const one = secondsOver(table, 1);
  const eight = secondsOver(table, 8);
  const lesson =
    eight < 3 * one
      ? "Speculative decoding lives on this gap."
      : "Arithmetic is slow here, so the budget guesses less than it would on another processor.";
  return prose`Measured on this machine: a forward pass over 1 token takes ${milliseconds(one)}, over 8 tokens
    ${milliseconds(eight)}. That is ${ratio(eight / one)} times as long for 8 times the tokens. ${lesson}`;
}

/** @param {[number, number][]} table */
function bars(table) {
  const figure = make("dl", "costs");
  const shown = table.filter(([n]) => n <= MOST_TOKENS);
  const most = Math.max(...shown.map(([, t]) => t));
  for (const [n, t] of shown) {
    const bar = make("dd");
    const fill = make("i");
    fill.style.width = `${(100 * t) / most}%`;
    bar.append(fill, make("span", "", milliseconds(t)));
    figure.append(make("dt", "", plural(n, "token")), bar);
  }
  return figure;
}

/**
 * @param {Turn | null} race
 * @param {(steps: readonly Step[]) => number} choose -1 where no step will do
 * @returns {Example | null}
 */
function exampleOf(race, choose) {
  const lane = race?.lanes.method;
  const index = lane ? choose(lane.steps) : -1;
  return lane && index >= 0 ? { lane, index, step: lane.steps[index], words: race.end?.words ?? {} } : null;
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

/** @param {Example} example */
function context({ lane, index }) {
  const before = textBefore(lane, index).trimEnd().split(/\s+/).slice(-6).join(" ");
  return before ? `after “… ${before}”` : "at the start of the answer";
}

/**
 * Who guessed these nodes.
 * @param {Facts} facts
 * @param {Tree} tree
 * @param {number[]} nodes
 */
function guessers({ legend }, tree, nodes) {
  const used = new Set(nodes.map((node) => sourcesOf(tree, node)[0]));
  const looks = legend.filter(({ source }) => used.has(source));
  return list(looks.map(({ source, name }) => SPOKEN[source] ?? `the ${name.toLowerCase()}`));
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
  const { lane, index, step, words } = example;
  const { tree, path } = factsOf(step);
  const guessed = path.map((node) => words[tree.tokens[node]] ?? "").join("");
  const story = prose`In step ${index + 1}, ${context(example)}, ${guessers(facts, tree, path)} guessed
    “${flat(guessed)}”. The model, asked at each of these places, picked the very same:
    ${plural(path.length, "guess", "guesses")} accepted, and one token of its own on top.
    ${plural(step.sources.length, "token")} for one pass.`;
  return { title, text: [lesson, story], figure: sample(lane, index, words, path), pointer: stepPointer(index) };
}

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
  const { lane, index, step, words } = example;
  const { tree, guesses } = factsOf(step);
  const first = guesses.filter((node) => tree.parents[node] === 0);
  const shown = first.slice(0, 3);
  /** @param {number} token */
  const word = (token) => `“${flat(words[token] ?? "")}”`;
  const story = prose`In step ${index + 1}, ${context(example)}, ${guessers(facts, tree, first)} guessed
    ${list(shown.map((node) => word(tree.tokens[node])))}. The model picked ${word(step.picks[0])}.`;
  const lesson = prose`So the guess was thrown away and the pick was written. A wrong guess never reaches the text;
    all it costs is a slightly wider pass, and the budget stops guessing where that does not pay.`;
  return { title, text: [story, lesson], figure: sample(lane, index, words, shown), pointer: stepPointer(index) };
}

/**
 * @param {Turn | null} race
 * @returns {Chapter}
 */
function unchanged(race) {
  const figures = race?.end?.figures;
  const same = figures && "level" in figures && figures.whole && figures.differs === null;
  return {
    title: "Why the text does not change",
    text: [
      prose`The guesses decide nothing. At every place the model picks its own next token from everything before it,
        just as in plain decoding; a guess only lets that pick be computed earlier. Where guess and pick agree, the
        walk goes on. Where they do not, it ends, and everything behind the wrong guess is dropped.`,
      same
        ? `Here both answers were compared token by token: all ${plural(figures.plain.tokens, "token")} are the same.`
        : "The badge under the bars says whether both answers are the same, token by token.",
    ],
    pointer: { name: "Show the badge", selector: "#stage-race .below" },
  };
}

/** @returns {Chapter} */
function temperature() {
  return {
    title: "What happens at temperature 1",
    text: [
      prose`With a temperature above 0 the model does not take its likeliest token but draws one by lot. The draw at
        each position uses random numbers that depend only on the seed and the position. So the same seed draws the
        same token whether it was guessed or not, and the text is still the same.`,
      prose`Guesses are right less often, though: a draw is harder to foresee than the likeliest token. Set the
        temperature to 1 and race again, and watch the tokens per pass go down while the badge stays.`,
    ],
    pointer: { name: "Show the setting", selector: "#field-temperature" },
  };
}

/**
 * @param {Facts} facts
 * @returns {Chapter}
 */
function precision({ badges }) {
  return {
    title: "Why half precision needs care",
    text: [
      prose`Numbers of 16 bits are rounded hard, and rounding depends on the order of additions. A processor adds in
        another order for eight tokens than for one, so the same model can score two close candidates the other way
        round, and the text takes another turn. Many systems accept that.`,
      prose`Here a pass over a tree is computed so that each token gets exactly the bits that it gets alone (“exact”);
        the two lanes can then be compared token for token. This page runs in ${badges[1]}.`,
    ],
    pointer: { name: "Show where it says so", selector: ".top .badges" },
  };
}
