/** What the opened dictionaries say of the datastores. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { seenIn } from "../../assets/js/race/dictionaries.js";

/**
 * @param {string} store
 * @param {number} seen
 */
const hit = (store, seen) => ({ token: 1, match: 3, times: 1, seen, store, texts: null, perplexity: null });

test("how often the end of the text was seen is told of each store that knows it", () => {
  assert.equal(seenIn([hit("code", 66), hit("code", 66)]), "66 times");
  assert.equal(seenIn([hit("code", 66), hit("mine", 1), hit("code", 66)]), "66 times in code and 1 time in mine");
});
