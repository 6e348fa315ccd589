/** How a chapter says where a step stands. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { context, guessers, priceOf } from "../../assets/js/learn/chapters.js";
import { noise, precision, temperature } from "../../assets/js/learn/sampling-chapters.js";
import { EMPTY_LANE, extend } from "../../assets/js/stream/lane.js";
import { EMPTY, reduce } from "../../assets/js/stream/reducer.js";
import { beginOf, COMPARED, endOf, snapshotOf, stepOf } from "./support/runs.js";

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

test("a drafter's own source is spoken of by its name, whatever names the language has", () => {
  const tree = {
    tokens: [1, 2, 3],
    parents: [-1, 0, 0],
    sources: ["model", "constructor", "ngram"],
    chances: null,
    rows: [0, 0, 1],
    pool: [],
  };
  const legend = [{ source: "ngram", name: "N-grams", meaning: "", hatch: "", dash: "none" }];
  const facts = { legend, cost: [], badges: [], divergence: null, drafts: null };
  assert.equal(guessers(facts, tree, [1, 2]), "an n-gram and the constructor");
});

test("a page with fast numerics does not say that its sums have one fixed order", () => {
  /** @param {string} badge */
  const said = (badge) => precision({ badges: ["2 CPU cores", badge], divergence: null }).text.join(" ");
  assert.match(said("bf16, exact"), /Here every sum has one fixed order .* How this page runs: bf16, exact\./);
  for (const badge of ["bf16, fast", "4/8-bit weights, fast (bf16)"]) {
    assert.doesNotMatch(said(badge), /Here every sum/);
    assert.ok(said(badge).includes(`This page runs otherwise (${badge}), so a race may differ at such a place.`));
  }
});

test("only a budget that weighs chances is said to stop guessing", () => {
  assert.match(priceOf({ chances: [null, 0.3] }), /budget stops guessing/);
  assert.doesNotMatch(priceOf({ chances: null }), /budget|slightly/);
});

test("a race whose drafts were tested by their chances is not said to have plain decoding's text", () => {
  const begin = beginOf("r", { method: "spechub" }, { link: { prompt: "hello", method: "spechub", temperature: 1 } });
  for (const drawn of [true, false]) {
    const end = endOf("r", { method: 1 }, { figures: { ...COMPARED, drawn } });
    const race = reduce(EMPTY, snapshotOf(begin, { method: [stepOf(["model"])] }, end)).turns[0];
    for (const chapter of [temperature(race), noise(race)]) {
      const said = chapter.text.at(-1) ?? "";
      assert.match(said, /^This race was at temperature 1: 2.00 tokens a pass/);
      assert.equal(said.endsWith("so its text is a draw of its own."), drawn);
    }
  }
});
