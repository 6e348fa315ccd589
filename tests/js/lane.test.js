/** Lanes: when each step was over, how many tokens there were by then, who gave them. */

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  EMPTY_LANE,
  extend,
  offersOf,
  passesTo,
  stepsAt,
  Tally,
  textBefore,
  textOf,
} from "../../assets/js/stream/lane.js";
import { dice, frozen, stepOf } from "./support/runs.js";

const STEPS = [stepOf(["model"], { prefill: 0.5 }), stepOf(["forward", "retrieval", "model"]), stepOf(["model"])];

test("steps end one after the other, the first one after the prompt was read", () => {
  const lane = extend(EMPTY_LANE, STEPS);
  assert.deepEqual(lane.ends, [0.5, 0.75, 1, 1.25]);
  assert.deepEqual(lane.totals, [0, 1, 4, 5]);
  assert.equal(lane.seconds, 1.25);
  assert.equal(lane.tokens, 5);
});

test("a lane is the same however its steps came, and the shorter one is left as it was", () => {
  const start = frozen(extend(EMPTY_LANE, STEPS.slice(0, 1)));
  assert.deepEqual(extend(start, STEPS.slice(1)), extend(EMPTY_LANE, STEPS));
  assert.equal(extend(start, []), start);
  assert.equal(start.steps.length, 1);
});

test("the steps over by a time are those whose end is not after it", () => {
  const random = dice(3);
  const steps = Array.from({ length: 40 }, (_, i) => stepOf(["model"], { seconds: random(), prefill: i ? 0 : 0.2 }));
  const lane = extend(EMPTY_LANE, steps);
  for (const time of [0, 0.1, ...lane.ends, lane.seconds / 3, lane.seconds + 1, Infinity]) {
    const over = lane.ends.slice(1).filter((end) => end <= time).length;
    assert.equal(stepsAt(lane, time), over, `at ${time}`);
  }
  assert.equal(stepsAt(EMPTY_LANE, Infinity), 0);
});

test("passes to a number of tokens", () => {
  const lane = extend(EMPTY_LANE, STEPS);
  assert.deepEqual(
    [0, 1, 2, 4, 5, 6].map((tokens) => passesTo(lane, tokens)),
    [0, 1, 2, 2, 3, -1],
  );
});

/** @param {Map<string, number>} map */
const plainly = (map) => Object.fromEntries(map);

test("tokens are counted by the source that offered them first, and by all that did", () => {
  const tree = { tokens: [0, 1, 2], parents: [-1, 0, 1], sources: ["model", "forward,ngram", "backward"] };
  const shared = stepOf(["forward", "backward", "model"], {
    path: [1, 2],
    tree: { ...tree, chances: null, rows: [0, 0, 0], pool: [] },
  });
  assert.deepEqual(offersOf(shared), [["forward", "ngram"], ["backward"], ["model"]]);
  const counts = new Tally();
  counts.count(STEPS);
  assert.deepEqual(plainly(counts.first), { model: 3, forward: 1, retrieval: 1 });
  counts.count([...STEPS, shared]);
  assert.deepEqual(plainly(counts.first), { model: 4, forward: 2, retrieval: 1, backward: 1 });
  assert.deepEqual(plainly(counts.every), { model: 4, forward: 2, retrieval: 1, backward: 1, ngram: 1 });
  counts.count([shared]);
  assert.deepEqual(plainly(counts.every), { forward: 1, ngram: 1, backward: 1, model: 1 });
  counts.count([STEPS[0], STEPS[2]]); // another answer, and a longer one
  assert.deepEqual(plainly(counts.first), { model: 2 });
  counts.count([STEPS[0]]); // the same one, shorter again
  assert.deepEqual(plainly(counts.first), { model: 1 });
});

test("the text before a step is all that the steps before it completed", () => {
  const lane = extend(EMPTY_LANE, [
    stepOf(["model"], { pieces: [[1, "Caf"]] }),
    stepOf(["model"], { pieces: [] }),
    stepOf(["model"], { pieces: [[2, "é "]] }),
  ]);
  assert.deepEqual(
    [0, 1, 2, 3].map((step) => textBefore(lane, step)),
    ["", "Caf", "Caf", "Café "],
  );
});

test("the text of a step's first tokens has characters that are wholly theirs, and a sign for the others", () => {
  /** @param {[number, string][]} pieces @param {number} tokens */
  const step = (pieces, tokens) => stepOf(Array(tokens).fill("forward"), { pieces });
  const lane = extend(EMPTY_LANE, [
    step([[1, "a"]], 3),
    step(
      [
        [4, "🙂"],
        [1, " b"],
        [3, "漢"],
      ],
      8,
    ),
    step([[4, "é"]], 2),
  ]);
  const cases = /** @type {const} */ ([
    [0, 1, "a"],
    [0, 3, "a\ufffd"],
    [1, 1, "\ufffd"],
    [1, 2, "\ufffd"],
    [1, 3, "\ufffd b"],
    [1, 6, "\ufffd b漢"],
    [1, 8, "\ufffd b漢\ufffd"],
    [2, 2, "\ufffd"],
  ]);
  for (const [index, tokens, text] of cases) assert.equal(textOf(lane, index, tokens), text, `${index}, ${tokens}`);
});
