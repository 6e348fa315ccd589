/** Numbers and words as the page writes them. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { brief, ending, gained, ratio, visible } from "../../assets/js/common/format.js";

test("what is written as 1.00 is not called faster", () => {
  for (const x of [0.3, 0.999, 1, 1.0049]) assert.equal(gained(x), "the speed of plain decoding", ratio(x));
  for (const x of [1.0051, 1.5, 9.996, 30]) assert.equal(gained(x), "faster", ratio(x));
});

test("a long text ends with whole words", () => {
  assert.equal(ending("short", 5), "short");
  assert.equal(ending("    def __init__(self, name", 21), "… __init__(self, name");
  assert.equal(ending("one two three", 9), "… two three");
  assert.equal(ending("one two three", 8), "… three");
  assert.equal(ending("supercalifragilistic", 6), "… listic");
  assert.equal(ending("one two\n", 3), "… wo\n");
});

test("no text is cut in the middle of a character", () => {
  assert.equal(ending("🙂🙂🙂", 3), "… 🙂");
  assert.equal(brief(`${"a".repeat(12)}🙂🙂`), `${"a".repeat(12)}…`);
});

test("bytes that are part of a character have a neutral mark", () => {
  assert.equal(visible(" \ufffd"), "·‹part›");
  assert.equal(brief("\ufffd\ufffd\ufffd"), "‹part›");
  assert.equal(visible("é\t"), "é⇥");
});
