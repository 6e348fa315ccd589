/** What would be gained with another acceptance, length or device, against sums done by hand. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { curveOf, figureOf, LONGEST, placeOf, secondsOver, speedupOf, verdict } from "../../assets/js/learn/what-if.js";
import { EMPTY, reduce } from "../../assets/js/stream/reducer.js";
import { beginOf, COMPARED, endOf, snapshotOf, stepOf } from "./support/runs.js";

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

test("what is said of the curve is its best length, and where it stops paying", () => {
  const found = curveOf(COST, 0.6, 1);
  const five = `5 guesses a pass: ${found.curve[5].toFixed(2)} times plain decoding.`;
  const best = `Best at ${found.best}: ${found.curve[found.best].toFixed(2)} times.`;
  assert.equal(verdict(found, 5), `${five} ${best} It stops paying at ${found.ends} guesses.`);
  const free = verdict(curveOf(COST, 0.9, 0), 1);
  assert.match(free, /^1 guess a pass: 1\.90 times .* It pays up to 32, as far as the curve goes\.$/);
  const none = "1 guess a pass: 0.91 times plain decoding. It does not pay: with these no chain of guesses is faster";
  assert.equal(verdict(curveOf(COST, 0, 1), 1), `${none} than none.`);
});

test("a race is a point at its guesses a pass, and says how often the first of a pass held", () => {
  /** @param {number} guesses @param {number} pool nodes of the pool behind them */
  const treeOf = (guesses, pool) => {
    const nodes = Array.from({ length: 1 + guesses + pool }, (_, node) => node);
    return {
      tokens: nodes,
      parents: nodes.map((node) => node - 1),
      sources: nodes.map(() => "forward"),
      chances: null,
      rows: nodes.map(() => 0),
      pool: nodes.slice(1 + guesses),
    };
  };
  const steps = [
    stepOf(["forward", "model"], { tree: treeOf(3, 2), path: [1] }),
    stepOf(["model"], { tree: treeOf(2, 0), path: [] }),
    stepOf(["model"], { tree: treeOf(0, 4), path: [] }),
    stepOf(["model"]),
  ];
  const begin = beginOf("r", { plain: "plain", method: "spectra" });
  /** @param {typeof steps} method @param {object} more */
  const raceOf = (method, more = {}) => {
    const end = endOf("r", { method: method.length }, { figures: { ...COMPARED, ...more } });
    return reduce(EMPTY, snapshotOf(begin, { plain: [], method }, end)).turns[0];
  };
  assert.deepEqual(placeOf(raceOf(steps)), { guesses: 5 / 4, speedup: 2, acceptance: 1 / 2 });
  assert.equal(placeOf(raceOf(steps, { speedup: null })), null);
  assert.equal(placeOf(raceOf(steps.slice(2))), null);
  assert.equal(placeOf(null), null);
});
