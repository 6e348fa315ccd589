/** The chapters on the method's parts count what the race's trace holds. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { methodChapters } from "../../assets/js/learn/method-chapters.js";
import { EMPTY, reduce } from "../../assets/js/stream/reducer.js";
import { beginOf, deltaOf, endOf, stepOf } from "./support/runs.js";

/** @import { Tree } from "../../assets/js/stream/messages.js" */
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

/** @param {Tree | undefined} tree */
function poolChapter(tree) {
  const method = [stepOf(["model"], tree ? { tree } : {}), stepOf(["model"])];
  /** @type {Stream} */
  let stream = EMPTY;
  stream = reduce(stream, beginOf("r", { method: "SPECTRA" }));
  stream = reduce(stream, deltaOf("r", { method: 0 }, { method }));
  stream = reduce(stream, endOf("r", { method: 2 }));
  return methodChapters(stream.turns[0])[1].text.at(-1);
}

test("tokens of the pool count whether they are guesses too or not", () => {
  assert.equal(poolChapter(TREE), "In this race the pool had 3 tokens scored in 2 passes.");
});

test("a race without them says so", () => {
  assert.match(String(poolChapter(undefined)), /^In this race no pool tokens were scored/);
});
