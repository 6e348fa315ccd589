/** What a browser keeps of a race that ran when the page went away. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { keepCutOff, leaveWord, queryOf, takeCutOff } from "../../assets/js/race/cut-off.js";

/** @type {Map<string, string>} */
const kept = new Map();
const STORE = {
  setItem: (/** @type {string} */ key, /** @type {string} */ value) => {
    kept.set(key, value);
  },
  getItem: (/** @type {string} */ key) => kept.get(key) ?? null,
  removeItem: (/** @type {string} */ key) => {
    kept.delete(key);
  },
};
const link = { prompt: "a & b=<i>", method: "spectra", seed: 3 };

test("a race that ran when the page went away is told once, with a link that asks for it again", () => {
  keepCutOff(STORE, { state: "running", begin: { link } });
  assert.equal(takeCutOff(STORE), "?prompt=a+%26+b%3D%3Ci%3E&method=spectra&seed=3");
  assert.equal(takeCutOff(STORE), null);
});

test("one that was over is not told of", () => {
  for (const turn of [{ state: "done", begin: { link } }, { state: "stopped", begin: { link } }, null, undefined]) {
    keepCutOff(STORE, turn);
    assert.equal(takeCutOff(STORE), null);
  }
});

test("each tab is told of its own", () => {
  keepCutOff(STORE, { state: "running", begin: { link } }, "chat");
  assert.equal(takeCutOff(STORE), null);
  assert.ok(takeCutOff(STORE, "chat")?.includes("seed=3"));
});

test("what has no link leaves a word", () => {
  leaveWord(STORE, "datastore", "build");
  assert.equal(takeCutOff(STORE), null);
  assert.equal(takeCutOff(STORE, "datastore"), "build");
  assert.equal(takeCutOff(STORE, "datastore"), null);
});

test("a link is never longer than what the server takes: the prompt is left out", () => {
  assert.equal(
    queryOf({ ...link, prompt: "x".repeat(20_000) }).length,
    20_000 + "prompt=&method=spectra&seed=3".length,
  );
  assert.equal(queryOf({ ...link, prompt: "漢".repeat(7_000) }), "method=spectra&seed=3");
});
