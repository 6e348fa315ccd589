/** Numbers and words as the page writes them. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { gained, ratio } from "../../assets/js/common/format.js";

test("what is written as 1.00 is not called faster", () => {
  for (const x of [0.3, 0.999, 1, 1.0049]) assert.equal(gained(x), "the speed of plain decoding", ratio(x));
  for (const x of [1.0051, 1.5, 9.996, 30]) assert.equal(gained(x), "faster", ratio(x));
});
