/** A drafter's own source has a look on the page, in charts and in words too. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { acceptanceFigure } from "../../assets/js/charts/acceptance-figure.js";
import { gainFigure } from "../../assets/js/charts/race-figures.js";
import { withOthers } from "../../assets/js/common/looks.js";
import { EMPTY_LANE, extend } from "../../assets/js/stream/lane.js";
import { toldOf } from "../../assets/js/stream/step-facts.js";
import { stepOf } from "./support/runs.js";

const INK = { ink: "#000", muted: "#666", grid: "#ddd", good: "#070", paper: "#fff", series: [] };
const CANVAS = { width: 452, height: 236, ink: INK, drawn: 3 };
const LOOKS = [{ source: "model", name: "Model itself", meaning: "", hatch: "/", dash: "none" }];
const COLOURS = { looks: LOOKS, colourOf: (/** @type {string} */ source) => `colour of ${source}` };
const STEP = stepOf(["my-own", "my-own", "model"], { judged: { "my-own": [2, 2, 4] } });

test("it goes by its own name, after the project's", () => {
  const looks = withOthers(LOOKS, ["my-own", "model", "my-own"]);
  assert.deepEqual(
    looks.map(({ source, name }) => [source, name]),
    [
      ["model", "Model itself"],
      ["my-own", "My own"],
    ],
  );
  assert.equal(withOthers(looks, ["my-own"]), looks);
});

test("a step tells of the sources of its tokens, its guesses and what was held", () => {
  const tree = { tokens: [1, 2], parents: [-1, 0], sources: ["model", "b,c"], chances: null, rows: [0, 0], pool: [] };
  assert.deepEqual([...toldOf(stepOf(["a"], { tree, held: { d: 1 } }))], ["a", "model", "b", "c", "d"]);
  assert.deepEqual([...toldOf(stepOf(["a"]))], ["a"]);
});

test("its tokens are bars, in its colour, so that a step's bars are as high as its tokens", () => {
  const method = extend(EMPTY_LANE, [STEP, STEP]);
  const race = { plain: EMPTY_LANE, method, cap: 64, over: true, level: null, name: "" };
  const bars = gainFigure(race, COLOURS, CANVAS).traces.filter(({ type }) => type === "bar");
  assert.deepEqual(
    bars.map(({ y, marker }) => [y, /** @type {{ color: string }} */ (marker).color]),
    [
      [[1, 1], "colour of model"],
      [[2, 2], "colour of my-own"],
    ],
  );
});

test("its acceptance is a line", () => {
  const { traces } = acceptanceFigure([STEP, STEP], "guessed", true, COLOURS, CANVAS);
  assert.deepEqual(
    traces.map(({ y, line }) => [y, /** @type {{ color: string, dash: string }} */ (line)]),
    [[[0.5, 0.5], { color: "colour of my-own", width: 2, dash: "3px,3px" }]],
  );
});
