/** What a race claims: no more than its passes allow, and of the tokens that both answers have. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { claimOf, sparedPasses } from "../../assets/js/race/verdict.js";
import { COMPARED } from "./support/runs.js";

const NO_GUESS = { ...COMPARED, method: { ...COMPARED.method, passes: 11, tau: 1 }, speedup: 1.09 };

test("a race that was stopped compares the tokens that both answers have, and says so", () => {
  const stopped = { ...COMPARED, whole: false, speedup: 1.6, level: { tokens: 113, plain: 1.6, method: 1 } };
  const { score, verdict } = claimOf(stopped, "Stopped", false);
  assert.deepEqual([score, verdict], ["1.60×", "Stopped: faster, over the first 113 tokens of both"]);
});

test("a race that took a pass for every token claims no gain", () => {
  assert.deepEqual(claimOf(NO_GUESS, undefined, false), {
    score: "No gain",
    verdict: "it took a pass for every token, so 1.09× is noise",
  });
  assert.deepEqual([sparedPasses(NO_GUESS), sparedPasses(COMPARED)], [false, true]);
});

test("one that was slower keeps its figure: guesses that fail cost time", () => {
  const slower = claimOf({ ...NO_GUESS, speedup: 0.8 }, undefined, true);
  assert.deepEqual([slower.score, slower.verdict], ["0.80×", "the speed of plain decoding, in this recording"]);
});

test("times of few tokens are not compared", () => {
  const few = { ...COMPARED, few: true, speedup: null, level: { tokens: 1, plain: 1, method: 1 } };
  assert.equal(claimOf(few, "Stopped", false).verdict, "Stopped: 1 token: too little was decoded to compare");
});
