/** What the table of Compare says under its rows. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { cutsOf } from "../../assets/js/compare/table.js";

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
