/** What the chapters on trees of drafts read off a race. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { branched, draftsTaken, reached } from "../../assets/js/learn/tree-chapters.js";
import { stepOf } from "./support/runs.js";

/** @import { Tree } from "../../assets/js/stream/messages.js" */

/** @type {Tree} 1 and 2 after the root, 3 and 4 after 2, 5 after 1, which is rejected, 6 of the pool */
const TREE = {
  tokens: [10, 11, 12, 13, 14, 15, 16],
  parents: [-1, 0, 0, 2, 2, 1, 0],
  sources: ["model", "draft", "draft", "draft", "draft", "draft", "pool"],
  chances: [null, 0.5, 0.4, 0.3, 0.2, 0.1, null],
  rows: [0, 1, 0, 0, 2, 1, 3],
  pool: [6],
};
const SECOND = stepOf(["draft", "draft", "model"], { tree: TREE, path: [2, 3], picks: [12, 13, 9] });
const NEITHER = stepOf(["model"], { tree: TREE, picks: [7] });

test("of a tree the places that the walk reached are kept, with all that stood there", () => {
  const { tree, path } = reached(SECOND);
  assert.deepEqual(tree?.tokens, [10, 11, 12, 13, 14]);
  assert.deepEqual(tree?.parents, [-1, 0, 0, 2, 2]);
  assert.deepEqual(tree?.chances, [null, 0.5, 0.4, 0.3, 0.2]);
  assert.deepEqual(path, [2, 3]);
  assert.deepEqual(reached(NEITHER).tree?.tokens, [10, 11, 12]);
});

test("the step of the figure got furthest among those with two guesses at a place", () => {
  const chain = { ...TREE, tokens: [1, 2, 3], parents: [-1, 0, 1], sources: ["model", "draft", "draft"], pool: [] };
  const long = stepOf(["draft", "draft", "model"], { tree: chain, path: [1, 2] });
  assert.equal(branched([stepOf(["model"]), long, NEITHER, SECOND]), 3);
  assert.equal(branched([stepOf(["model"]), long, NEITHER]), -1);
  const five = {
    ...TREE,
    tokens: [1, 2, 3, 4, 5, 6],
    parents: [-1, 0, 1, 2, 3, 0],
    sources: Array(6).fill("draft"),
    pool: [],
  };
  const wide = stepOf(Array(5).fill("draft"), { tree: five, path: [1, 2, 3, 4] });
  assert.equal(branched([wide, SECOND]), 1, "one that has no room comes after all that have");
  assert.equal(branched([wide]), 0);
});

test("a place counts by the draft that was accepted there; a place without drafts does not", () => {
  assert.deepEqual(draftsTaken([SECOND, NEITHER, stepOf(["model"])]), { first: 1, second: 1, neither: 1 });
  const ended = stepOf(["draft"], { tree: TREE, path: [2], picks: [12, 13] });
  assert.deepEqual(draftsTaken([ended]), { first: 0, second: 1, neither: 0 }, "nobody asked for what follows the end");
});
