/** What would be gained with another acceptance, length or device, against sums done by hand. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { curveOf, figureOf, LONGEST, secondsOver, speedupOf } from "../../assets/js/learn/what-if.js";

/** @type {[number, number][]} */
const COST = [
  [1, 0.02],
  [2, 0.022],
  [8, 0.03],
  [32, 0.1],
];

/**
 * @param {number} a
 * @param {number} b
 */
const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-12, `${a} is not ${b}`);

test("a pass between two that were measured lies on their line, and beyond the last one on its slope", () => {
  near(secondsOver(COST, 1), 0.02);
  near(secondsOver(COST, 5), 0.026);
  near(secondsOver(COST, 33), 0.1 + 0.07 / 24);
  near(secondsOver([[1, 0.5]], 9), 0.5);
});

test("a wide pass that was measured as the faster one costs nothing, and what is beyond it no less", () => {
  /** @type {[number, number][]} */
  const noisy = [
    [1, 0.02],
    [8, 0.03],
    [9, 0.008],
  ];
  near(secondsOver(noisy, 20), 0.008);
  near(speedupOf(noisy, 0, 8, 2), 1);
  near(speedupOf(noisy, 0.5, 1, 2), 1.5 / (1 + 2 / 14));
});

test("a chain gains its tokens over the time of its pass", () => {
  near(speedupOf(COST, 0.5, 1, 1), 1.5 / 1.1);
  near(speedupOf(COST, 0.5, 1, 0), 1.5);
  near(speedupOf(COST, 0, 7, 1), 1 / 1.5);
  near(speedupOf(COST, 0.9, 0, 1), 1);
});

test("the best length and the one at which it stops paying", () => {
  const { curve, best, ends } = curveOf(COST, 0.6, 1);
  assert.equal(curve.length, LONGEST + 1);
  assert.ok(curve.every((speedup) => speedup <= curve[best]));
  assert.ok(ends !== null && curve[ends] < 1 && curve[ends - 1] >= 1);
  assert.deepEqual([curveOf(COST, 0, 1).best, curveOf(COST, 0.9, 0).ends], [0, null]);
});

test("a race of wide passes stands where it belongs, the axis reaching that far", () => {
  const canvas = {
    width: 400,
    height: 260,
    drawn: 1,
    ink: { ink: "", muted: "", grid: "", good: "", paper: "", series: [] },
  };
  for (const [guesses, end] of [
    [3.5, LONGEST + 0.5],
    [75, 75.5],
  ]) {
    const { traces, layout } = figureOf(curveOf(COST, 0.6, 1), 5, { guesses, speedup: 1.2 }, canvas);
    assert.deepEqual(traces.at(-1)?.x, [guesses]);
    assert.equal(layout.xaxis.range?.[1], end);
  }
});
