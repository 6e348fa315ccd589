/** Chapters on what the method is made of, with the figures of the visitor's own last race. */

import { count, list, percent, plural, prose } from "../common/format.js";

/** @import { Turn } from "../stream/reducer.js" */
/** @import { LaneFigures } from "../stream/messages.js" */
/** @import { Chapter } from "./chapters.js" */

const PANEL = { name: "Show the step panel", selector: "#stage-race [data-id=inside]" };
const SETTINGS = { name: "Show the settings", selector: "#ask .method-settings" };

const REFINES = /^spectra(?!.*-retrieval)/;
const WITH_POOL = /^spectra(?!.*-retrieval)|^lookahead/;
const FIXED_POOL = /^spectra-paper|^lookahead/; // of those: whose rows do not go by what pays here

/**
 * @param {Turn | null} race one that is over
 * @returns {Chapter[]}
 */
export function methodChapters(race) {
  return [dictionaries(race), pool(race), refining(race), retrieval(race)];
}

/**
 * What a source's guesses came to in the race; "" where it had none.
 * @param {Turn | null} race
 * @param {string} source
 * @param {string} name
 */
function cameTo(race, source, name) {
  /** @type {LaneFigures | null | undefined} */
  const figures = race?.end?.figures.method;
  const guessed = figures?.guessed[source];
  if (!figures || !guessed) return "";
  return `${name} guessed ${plural(guessed, "token")}, of which ${percent(figures.of_guessed[source])} were accepted.`;
}

/**
 * @param {Turn | null} race
 * @returns {Chapter}
 */
function dictionaries(race) {
  const last = race?.lanes.method.steps.findLast(({ held }) => held);
  const sizes = [
    ["forward", "the forward dictionary"],
    ["backward", "the backward dictionary"],
  ].flatMap(([source, name]) => {
    const size = last?.held?.[source];
    return size === undefined ? [] : [`${name} held ${plural(size, "n-gram")}`];
  });
  const held = sizes.length ? `Before the last pass of the race ${list(sizes)}.` : "";
  return {
    title: "Two dictionaries: forward and backward",
    text: [
      prose`The forward dictionary is asked with the last token and answers with runs that followed it: many guesses,
        each from little context. The backward one is asked with the last few tokens, the longest known end first, and
        answers with one next token: one guess, from much context. Its answer is appended and it is asked again.`,
      [held, cameTo(race, "forward", "The forward dictionary"), cameTo(race, "backward", "The backward one")]
        .filter(Boolean)
        .join(" "),
    ].filter(Boolean),
    pointer: PANEL,
  };
}

/** @param {string} sources of a node, with commas between them */
const offeredByPool = (sources) => sources.split(",").includes("pool");

/**
 * @param {Turn | null} race
 * @returns {Chapter}
 */
function pool(race) {
  const steps = race?.lanes.method.steps ?? [];
  const scored = steps.reduce((sum, { tree }) => sum + (tree?.sources.filter(offeredByPool).length ?? 0), 0);
  const story = scored
    ? `In this race the pool had ${plural(scored, "token")} scored in ${plural(steps.length, "pass", "passes")}.`
    : race && `In this race no pool tokens were scored: ${withoutPool(race)}`;
  return {
    title: "The pool, and every n-gram of its rows",
    text: [
      prose`N-grams of an unwritten answer have to come from somewhere. W rows of N − 1 tokens ride along in each pass;
        the model predicts the next token of each row, the row goes into the dictionaries, then moves on by one. A row
        of five tokens holds not one n-gram but four, if its shorter ends count too: those sub-n-grams cost nothing.`,
      story ?? "",
    ].filter(Boolean),
    pointer: SETTINGS,
  };
}

/**
 * Why a race had none.
 * @param {Turn} race
 */
function withoutPool({ begin }) {
  const { pool, rows } = begin.link;
  if (!WITH_POOL.test(begin.lanes.method)) return "its method has no pool.";
  if (pool === "off") return "it was switched off.";
  if (Number(rows ?? 1) === 0) return "W was 0.";
  if (begin.cap === 1) return "only one token was asked for, so there was nothing to look ahead for.";
  if (Number(rows) > 0 || FIXED_POOL.test(begin.lanes.method)) return "the node budget left no room for them.";
  return "rows did not pay, as wide passes are slow here. Set W to see it work.";
}

/**
 * @param {Turn | null} race
 * @returns {Chapter}
 */
function refining(race) {
  const recorded = race?.lanes.method.steps.flatMap(({ inside }) => inside ?? []) ?? [];
  const asks = recorded.flatMap(({ refined }) => refined);
  const drawn = asks.length
    ? `${count(asks.filter(Boolean).length)} of ${plural(asks.length, "draw")} asked for a new one.`
    : "there were no rows, so nothing was drawn.";
  const advice = "Tick “Record what the dictionaries hold” in the method settings and race again to see every draw.";
  const other = race && !REFINES.test(race.begin.lanes.method);
  const missing = other ? "The method of this race does not refine." : advice;
  const story = recorded.length && !other ? `Recorded in this race: ${drawn}` : missing;
  return {
    title: "Refining: rows that look for something new",
    text: [
      prose`Left alone, the rows soon predict what the dictionary already holds. So with a small chance, 0.1 in the
        paper, a row has to take its likeliest token among those that begin no n-gram yet, and brings new n-grams.`,
      story,
    ],
    pointer: SETTINGS,
  };
}

/**
 * @param {Turn | null} race
 * @returns {Chapter}
 */
function retrieval(race) {
  return {
    title: "Retrieval, and texts the model finds likely",
    text: [
      prose`A datastore tells what followed the same last words in other texts. A text of high
        perplexity is unlike what the model writes, so the texts of lowest perplexity are kept. Build a store of
        Python's library in the Datastore tab and look where the cut falls.`,
      cameTo(race, "retrieval", "Here the datastores"),
    ].filter(Boolean),
    pointer: { name: "Show the sources", selector: "#stage-race [data-id=legend]" },
  };
}
