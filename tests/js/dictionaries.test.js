/** What the opened dictionaries say of themselves and of the datastores. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { seenIn, textsOf, untold } from "../../assets/js/race/dictionaries.js";
import { stepOf } from "./support/runs.js";

/**
 * @param {string} store
 * @param {number} seen
 */
const hit = (store, seen) => ({ token: 1, match: 3, times: 1, seen, store, texts: null, perplexity: null });

test("how often the end of the text was seen is told of each store that knows it", () => {
  assert.equal(seenIn([hit("code", 66), hit("code", 66)]), "66 times");
  assert.equal(seenIn([hit("code", 66), hit("mine", 1), hit("code", 66)]), "66 times in code and 1 time in mine");
});

test("a hit without texts or without a perplexity says why it has none", () => {
  const told = { ...hit("code", 66), texts: 2, perplexity: 1.25 };
  assert.equal(untold([told, told]), "");
  assert.match(untold([told, { ...told, perplexity: null }]), /unrefined store have no perplexity/);
  assert.match(untold([told, hit("mine", 1)]), /reach into the opening of an answer, or by a store that keeps none/);
});

test("a dictionary that a race ran without is said to be none, not to know nothing", () => {
  const inside = { forward: [], backward: [], refined: [], learned: [], hits: [] };
  const without = "This race ran without it.";
  const rest = textsOf(stepOf(["model"], { inside }), "a");
  assert.deepEqual(rest, { forward: without, backward: without, some: false });
  const half = textsOf(stepOf(["model"], { inside, held: { backward: 0 } }), "a");
  assert.deepEqual(half, { forward: without, backward: "It knows no end of this text.", some: true });
  const whole = { inside: { ...inside, forward: [[1, 2]] }, held: { forward: 1, backward: 1 } };
  assert.equal(textsOf(stepOf(["model"], whole), "a").forward, "Held for “a”, newest first: 1 continuation.");
  /** @type {[number, number][]} as many as a guess may have, without a miss */
  const backward = Array.from({ length: 12 }, (_, token) => [4, token]);
  const long = textsOf(stepOf(["model"], { inside: { ...inside, backward }, held: { backward: 12 } }), "a");
  assert.match(long.backward, /to the first miss or the longest guess/);
});
