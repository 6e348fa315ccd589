/** What the table of Compare says under its rows, what it says of a method that has not ended, and its CSV. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { csvOf, cutsOf, liveRow } from "../../assets/js/compare/table.js";
import { EMPTY_LANE, extend } from "../../assets/js/stream/lane.js";

/** @param {[string, string?][]} rows name and what did not come of its settings */
const told = (...rows) =>
  cutsOf(
    rows.map(([name, cut]) => ({
      lane: name,
      method: "m",
      name,
      passes: 1,
      tokens: 1,
      rate: 1,
      tau: 1,
      differs: null,
      cut,
    })),
  );

test("what was cut is said with the names of the methods where it is not the same for all", () => {
  assert.deepEqual(told(["Plain"], ["A", ""]), []);
  assert.deepEqual(told(["Plain"], ["A", "refine changed nothing."], ["B", "refine changed nothing."]), [
    "Refine changed nothing.",
  ]);
  assert.deepEqual(
    told(["A", "W was 2 instead of 15."], ["B", "W was 9 instead of 15."], ["C", "W was 9 instead of 15."]),
    ["A: W was 2 instead of 15.", "B and C: W was 9 instead of 15."],
  );
});

test("a method that has not ended has the figures of its steps by now", () => {
  const who = { lane: "a", method: "spectra", name: "spectra" };
  const none = { passes: 0, tokens: 0, rate: 0, tau: 0, differs: null, open: true };
  assert.deepEqual(liveRow(who, EMPTY_LANE), { ...who, ...none });
  const steps = [
    { seconds: 0.5, prefill: 1, sources: ["forward", "forward", "model"] },
    { seconds: 0.5, sources: ["model"] },
  ];
  const now = { passes: 2, tokens: 4, rate: 2, tau: 2, differs: null, open: true };
  assert.deepEqual(liveRow(who, extend(EMPTY_LANE, steps)), { ...who, ...now });
});

test("a cell of the CSV is quoted where it has to be, and empty where nothing is known", () => {
  const row = { lane: "a", method: "spectra", name: "spectra", passes: 2, tokens: 4, rate: 2.5, tau: 2, differs: null };
  const [head, one, other, end] = csvOf([row, { ...row, changed: 'W=3, "pool"', differs: 7 }]).split("\n");
  const columns = "method,changed,tokens,seconds,rate,speedup,macro,macro_speedup,tau,passes,acceptance,of_reached";
  assert.equal(head, `${columns},differs,drawn,shared`);
  assert.equal(one, "spectra,,4,,2.5,,,,2,2,,,,,");
  assert.equal(other, 'spectra,"W=3, ""pool""",4,,2.5,,,,2,2,,,7,,');
  assert.equal(end, "");
});
