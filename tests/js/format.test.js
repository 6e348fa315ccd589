/** Numbers and words as the page writes them. */

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  bare,
  brief,
  building,
  duration,
  ending,
  gained,
  list,
  milliseconds,
  percent,
  ratio,
  seconds,
  sentence,
  speed,
  visible,
} from "../../assets/js/common/format.js";

test("what is written as 1.00 is not called faster", () => {
  for (const x of [0.3, 0.999, 1, 1.0049]) assert.equal(gained(x), "the speed of plain decoding", ratio(x));
  for (const x of [1.0051, 1.5, 9.996, 30]) assert.equal(gained(x), "faster", ratio(x));
});

test("no number has more digits than three, also where it is rounded up", () => {
  assert.deepEqual([1, 9.994, 9.996, 12.34].map(ratio), ["1.00", "9.99", "10.0", "12.3"]);
  assert.deepEqual([0.04, 9.94, 9.96, 1234.5].map(speed), ["0.0", "9.9", "10", "1,235"]);
});

test("passes of a few milliseconds that differ are written as different ones", () => {
  const written = [0.0005, 0.0046, 0.0054, 0.00994, 0.00996, 0.0291, 0.9994, 1.24].map(milliseconds);
  const units = ["0.5", "4.6", "5.4", "9.9", "10", "29", "999"].map((figure) => `${figure}\u00a0ms`);
  assert.deepEqual(written, [...units, "1.2 s"]);
});

test("seconds become minutes where those are shorter to read", () => {
  assert.deepEqual([0.2, 1, 89, 90, 600].map(duration), [
    "1 second",
    "1 second",
    "89 seconds",
    "2 minutes",
    "10 minutes",
  ]);
});

test("short times are in milliseconds or have a digit more", () => {
  assert.deepEqual([0.5, 0.994, 1, 12.34].map(seconds), ["0.50 s", "0.99 s", "1.0 s", "12.3 s"]);
  assert.deepEqual([0.0123, 0.9, 1, 1.26].map(milliseconds), ["12\u00a0ms", "900\u00a0ms", "1.0 s", "1.3 s"]);
  assert.deepEqual([0, 0.756, 1].map(percent), ["0 %", "76 %", "100 %"]);
});

test("words become a list, and a list or a message a sentence", () => {
  assert.deepEqual([[], ["a"], ["a", "b"], ["a", "b", "c"]].map(list), ["", "a", "a and b", "a, b and c"]);
  assert.deepEqual(["", "w was 2", "W"].map(sentence), ["", "W was 2", "W"]);
  assert.deepEqual(["spectra", "spectra (W=3)"].map(bare), ["spectra", "spectra"]);
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
  assert.equal(brief("a".repeat(14)), "a".repeat(14));
  assert.equal(brief("a".repeat(15)), `${"a".repeat(13)}…`);
});

test("bytes that are part of a character have a neutral mark", () => {
  assert.equal(visible(" \ufffd"), "·‹part›");
  assert.equal(brief("\ufffd\ufffd\ufffd"), "‹part›");
  assert.equal(visible("é\t"), "é⇥");
});

test("how far a build is has its unit", () => {
  assert.equal(
    building({ what: "collecting its texts", done: 0, total: 0 }),
    "building its datastore: collecting its texts",
  );
  assert.equal(
    building({ what: "reading", done: 313566, total: 749643 }),
    "building its datastore: reading, 313,566 of 749,643 bytes",
  );
  const scoring = { what: "scoring", done: 1, total: 9 };
  assert.equal(building(scoring), "building its datastore: scoring, 1 of 9 tokens");
});
