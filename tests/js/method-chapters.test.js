/** The chapters on the method's parts count what the race's trace holds. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { methodChapters } from "../../assets/js/learn/method-chapters.js";
import { EMPTY, reduce } from "../../assets/js/stream/reducer.js";
import { beginOf, deltaOf, endOf, stepOf } from "./support/runs.js";

/** @import { Begin, Step, Tree } from "../../assets/js/stream/messages.js" */
/** @import { Stream } from "../../assets/js/stream/reducer.js" */

/** @type {Tree} guesses that the pool offered too, and a node of the pool that is no guess */
const TREE = {
  tokens: [1, 2, 4, 3, 9],
  parents: [-1, 0, 1, 0, 2],
  sources: ["model", "forward,pool", "pool", "retrieval", "pool"],
  chances: null,
  rows: [0, 0, 1, 2, 1],
  pool: [4],
};

/**
 * @param {Step[]} method the steps of that lane
 * @param {Partial<Begin>} [begin]
 */
function chaptersOf(method, begin = {}) {
  /** @type {Stream} */
  let stream = EMPTY;
  stream = reduce(stream, beginOf("r", { method: "spectra" }, begin));
  stream = reduce(stream, deltaOf("r", { method: 0 }, { method }));
  stream = reduce(stream, endOf("r", { method: method.length }));
  return methodChapters(stream.turns[0]).map(({ text }) => text.at(-1));
}

test("tokens of the pool count whether they are guesses too or not", () => {
  const steps = [stepOf(["model"], { tree: TREE }), stepOf(["model"])];
  assert.equal(chaptersOf(steps)[1], "In this race the pool had 3 tokens scored in 2 passes.");
});

test("a race without them says why, and where there is no race nothing is said of one", () => {
  const none = "In this race no pool tokens were scored: ";
  /** @type {[Partial<Begin>, string][]} */
  const races = [
    [{}, "rows did not pay, as wide passes are slow here. Set W to see it work."],
    [{ link: { prompt: "hello", method: "spectra", pool: "off" } }, "it was switched off."],
    [{ link: { prompt: "hello", method: "spectra", rows: 0 } }, "W was 0."],
    [{ lanes: { method: "spectra-paper" } }, "the node budget left no room for them."],
    [{ lanes: { method: "lookahead-rest" } }, "the node budget left no room for them."],
    [{ cap: 1 }, "only one token was asked for, so there was nothing to look ahead for."],
    [{ lanes: { method: "prompt-lookup" } }, "its method has no pool."],
    [{ lanes: { method: "spectra-paper-retrieval" } }, "its method has no pool."],
  ];
  for (const [begin, why] of races) assert.equal(chaptersOf([stepOf(["model"])], begin)[1], none + why);
  const texts = methodChapters(null).flatMap(({ text }) => text);
  assert.deepEqual(
    texts.filter((text) => text.includes("this race")),
    [],
  );
});

test("only dictionaries that the method has are said to hold something", () => {
  const one = stepOf(["model"], { held: { backward: 1 } });
  assert.equal(chaptersOf([one])[0], "Before the last pass of the race the backward dictionary held 1 n-gram.");
  const other = stepOf(["model"], { held: { ngram: 9 } });
  assert.match(String(chaptersOf([other])[0]), /^The forward dictionary is asked/);
});

test("a race that was recorded without pool rows has no draws", () => {
  const inside = { forward: [], backward: [], refined: [], learned: [], hits: [] };
  const recorded = chaptersOf([stepOf(["model"], { inside })])[2];
  assert.equal(recorded, "Recorded in this race: there were no rows, so nothing was drawn.");
  const drawn = chaptersOf([stepOf(["model"], { inside: { ...inside, refined: [true, false] } })])[2];
  assert.equal(drawn, "Recorded in this race: 1 of 2 draws asked for a new one.");
  assert.match(String(chaptersOf([stepOf(["model"])])[2]), /^Tick “Record/);
  const other = chaptersOf([stepOf(["model"])], { lanes: { method: "prompt-lookup" } })[2];
  assert.equal(other, "The method of this race does not refine.");
});
