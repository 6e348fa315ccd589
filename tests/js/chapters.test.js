/** How a chapter says where a step stands. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { context } from "../../assets/js/learn/chapters.js";
import { EMPTY_LANE, extend } from "../../assets/js/stream/lane.js";
import { stepOf } from "./support/runs.js";

/** @param {string} text */
function after(text) {
  /** @type {import("../../assets/js/stream/lane.js").Lane} */
  const lane = extend(EMPTY_LANE, [stepOf(["model"], { pieces: [[1, text]] }), stepOf(["model"])]);
  return context({ lane, index: 1 });
}

test("a step is named by the words before it, and by few characters where a text has no spaces", () => {
  assert.equal(after("  "), "at the start of the answer");
  assert.equal(after("one two three four five six seven\n"), "after “… two three four five six seven”");
  assert.equal(after("漢".repeat(512)), `after “… ${"漢".repeat(80)}”`);
});
