/** The sentences about a step say what its trace holds. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { gist, reasons } from "../../assets/js/race/step-reasons.js";
import { factsOf } from "../../assets/js/stream/step-facts.js";
import { stepOf } from "./support/runs.js";

/** @import { Step, Tree } from "../../assets/js/stream/messages.js" */

const NAMES = new Map([
  ["forward", "Forward dictionary"],
  ["retrieval", "Retrieval"],
  ["pool", "Candidate pool"],
]);
const WORDS = { 1: "the", 2: " cat", 3: " dog", 4: " sat" };
/** @type {Tree} "the" with the guesses " cat" (then " sat", under which is a node of the pool) and " dog" */
const TREE = {
  tokens: [1, 2, 4, 3, 9],
  parents: [-1, 0, 1, 0, 2],
  sources: ["model", "forward,retrieval", "forward", "retrieval", "pool"],
  chances: null,
  rows: [0, 0, 0, 1, 2],
  pool: [4],
};

/**
 * @param {Step} step
 */
const said = (step) => reasons(step, factsOf(step), WORDS, NAMES);

test("a step whose guesses were accepted to the end of their branch", () => {
  const step = stepOf(["forward", "forward", "model"], { tree: TREE, path: [1, 2], picks: [2, 4, 3], seconds: 0.031 });
  assert.equal(gist(step, factsOf(step)), "2 guesses accepted, 1 token from the model.");
  assert.deepEqual(said(step), [
    "Forward dictionary and retrieval offered 3 tokens, all in one tree.",
    "One forward pass scored all of them, 31\u00a0ms for the whole step.",
    "From the left, the model picked its own next token at each node; 2 picks were in the tree, so the walk went on.",
    "There the branch ended. The pick “·dog” came on top, free.",
    "1 more token was scored only to refresh the candidate pool, not as guesses.",
  ]);
});

test("a step whose guesses all failed, by a budget that kept some of them", () => {
  const chances = [null, 0.5, 0.3, 0.2, null];
  const tree = { ...TREE, chances };
  const step = stepOf(["model"], { tree, picks: [7], offered: 8, held: { forward: 1200, other: 3 } });
  const lines = said(step);
  assert.equal(gist(step, factsOf(step)), "0 guesses accepted, 1 token from the model.");
  assert.equal(lines[0], "N-grams held by then: 1,200 in the forward dictionary.");
  const offered = "8 tokens were offered, all in one tree; the 3 likeliest to pay were kept";
  assert.equal(lines[1], `${offered}, from forward dictionary and retrieval.`);
  const pick = "The model picked “#7”, which no branch had. That pick was written, so the pass still gained a token.";
  assert.ok(lines.includes(pick));
});

test("n-grams of a method that has no dictionaries are said to be held, wherever they come from", () => {
  const names = new Map([["ngram", "N-grams"]]);
  const step = stepOf(["model"], { held: { ngram: 1200 }, picks: [7] });
  assert.equal(reasons(step, factsOf(step), WORDS, names)[0], "N-grams held by then: 1,200.");
});

test("a guess that ended the answer has no pick behind it", () => {
  const step = stepOf(["forward", "forward"], { tree: TREE, path: [1, 2], picks: [2, 4, 3], finish: "eos" });
  const lines = said(step);
  assert.equal(gist(step, factsOf(step)), "2 guesses accepted, 0 tokens from the model.");
  assert.ok(lines.includes("The model ended its answer here."));
  assert.deepEqual(
    lines.filter((line) => line.includes("dog")),
    [],
  );
});

test("drafts that were tested by their chances are not said to be picked", () => {
  const facts = (/** @type {Step} */ step) => reasons(step, factsOf(step), WORDS, NAMES, true).join(" ");
  const some = facts(stepOf(["forward", "model"], { tree: TREE, path: [1], picks: [2, 3] }));
  assert.match(some, /tested by their chances and the model's; 1 draft passed, so the walk went on\./);
  assert.match(some, /No draft there passed: “·dog” was drawn from what they leave of the model's chances\./);
  assert.doesNotMatch(some + facts(stepOf(["model"], { tree: TREE, picks: [7] })), /picked/);
});

test("a plain step", () => {
  assert.deepEqual(said(stepOf(["model"], { finish: "eos" })), [
    "No source offered a guess here, so this was a plain step.",
    "One forward pass scored the last token, 250\u00a0ms for the whole step.",
    "The model ended its answer here.",
  ]);
  assert.equal(
    said(stepOf(["model"], { offered: 1 }))[0],
    "None of 1 known guess was worth its time here, so this was a plain step.",
  );
});

test("a step that only scored rows of the pool is not said to be a plain one", () => {
  const tree = { ...TREE, tokens: [1, 9], parents: [-1, 0], sources: ["model", "pool"], rows: [0, 1], pool: [1] };
  const lines = said(stepOf(["model"], { tree, picks: [7] }));
  assert.equal(lines[0], "No source offered a guess here, so nothing was guessed.");
  assert.equal(lines.at(-1), "1 more token was scored only to refresh the candidate pool, not as guesses.");
});

test("a plain step for the last token that could be written says so", () => {
  assert.deepEqual(said(stepOf(["model"], { finish: "length", offered: 0 })), [
    "One token was left to write: no guess could help, so this was a plain step.",
    "One forward pass scored the last token, 250\u00a0ms for the whole step.",
    "The answer reached its length limit here.",
  ]);
});

test("of many offered tokens a budget keeps the likeliest, a fixed number the first", () => {
  const one = { ...TREE, tokens: [1, 2], parents: [-1, 0], sources: ["model", "forward"], rows: [0, 0], pool: [] };
  const offered = (/** @type {Tree} */ tree) => said(stepOf(["model"], { tree, picks: [7], offered: 5 }))[0];
  const begins = "5 tokens were offered, all in one tree; the";
  const few = { ...one, chances: [null, 0.5] };
  assert.equal(offered(few), `${begins} likeliest to pay was kept, from forward dictionary.`);
  assert.equal(offered(one), `${begins} first was kept, from forward dictionary.`);
  assert.equal(offered(TREE), `${begins} first 3 were kept, from forward dictionary and retrieval.`);
});
