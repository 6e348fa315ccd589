/** The charts of a race as figures: what is drawn is what the lanes hold, and a step's frame lies on its bar. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { acceptanceFigure, shares, WINDOW } from "../../assets/js/charts/acceptance-figure.js";
import { barsFigure, linesFigure, wrapped } from "../../assets/js/charts/compare-charts.js";
import { barFrame, gainFigure, growthFigure } from "../../assets/js/charts/race-figures.js";
import { axesOf, sweepFigure } from "../../assets/js/charts/sweep-figure.js";
import { EMPTY_LANE, extend } from "../../assets/js/stream/lane.js";
import { stepOf } from "./support/runs.js";

/** @import { Canvas, Layout } from "../../assets/js/charts/plotly.js" */
/** @import { Step } from "../../assets/js/stream/messages.js" */
/** @import { Race } from "../../assets/js/charts/race-figures.js" */

/** @typedef {{ text: string, x: number, y: number, xanchor: string, xshift: number }} Note */

const INK = { ink: "#000", muted: "#666", grid: "#ddd", good: "#070", paper: "#fff", series: [] };
/** @type {Canvas} */
const CANVAS = { width: 452, height: 236, ink: INK, drawn: 3 };
const LOOKS = ["forward", "retrieval", "model"].map((source) => ({
  source,
  name: source,
  meaning: "",
  hatch: "/",
  dash: "7 3",
}));
const COLOURS = { looks: LOOKS, colourOf: (/** @type {string} */ source) => `colour of ${source}` };

const PLAIN = extend(
  EMPTY_LANE,
  Array.from({ length: 12 }, () => stepOf(["model"])),
);
const METHOD = extend(
  EMPTY_LANE,
  Array.from({ length: 4 }, () => stepOf(["forward", "forward", "model"])),
);
/** @type {Race} */
const OVER = {
  plain: PLAIN,
  method: METHOD,
  cap: 64,
  over: true,
  level: { tokens: 12, plain: 3, method: 1 },
  name: "SPECTRA",
};

describe("tokens over time", () => {
  test("have a line a lane, and the seconds saved between them", () => {
    const { traces, layout } = growthFigure(OVER, "time", CANVAS);
    assert.equal(traces[0].x, PLAIN.ends);
    assert.equal(traces[1].y, METHOD.totals);
    assert.deepEqual(
      [traces[2].x, traces[2].y],
      [
        [1, 3],
        [12, 12],
      ],
    );
    const notes = /** @type {{ text: string }[]} */ (layout.annotations);
    assert.deepEqual(
      notes.map(({ text }) => text),
      ["Plain", "<b>SPECTRA</b>", "<b>2.0 s saved</b>"],
    );
  });

  test("have the passes saved on the other axis", () => {
    const { traces, layout } = growthFigure(OVER, "passes", CANVAS);
    assert.deepEqual(traces[1].x, [0, 1, 2, 3, 4]);
    assert.deepEqual(traces[2].x, [4, 12]);
    assert.equal(layout.xaxis.ticksuffix, "");
    assert.ok(JSON.stringify(layout.annotations).includes("8 passes saved"));
    const one = growthFigure({ ...OVER, level: { tokens: 2, plain: 3, method: 1 } }, "passes", CANVAS);
    assert.ok(JSON.stringify(one.layout.annotations).includes("1 pass saved"));
  });

  test("say what was saved inside the chart where an answer was stopped early", () => {
    const stopped = {
      ...OVER,
      plain: extend(
        EMPTY_LANE,
        Array.from({ length: 200 }, () => stepOf(["model"])),
      ),
      method: extend(EMPTY_LANE, [stepOf(["forward", "model"])]),
      level: { tokens: 2, plain: 0.5, method: 0.25 },
    };
    for (const axis of /** @type {const} */ (["time", "passes"])) {
      const { layout } = growthFigure(stopped, axis, CANVAS);
      const notes = /** @type {Note[]} */ (layout.annotations);
      const saved = notes.find(({ text }) => text.includes("saved"));
      assert.equal(saved?.xanchor, "left", axis);
    }
  });

  test("of one token have room for both names beside the lines", () => {
    const [plain, method] = [0.06, 0.065].map((prefill) =>
      extend(EMPTY_LANE, [stepOf(["model"], { seconds: 0.005, prefill })]),
    );
    const width = 342;
    const { layout } = growthFigure({ ...OVER, plain, method, level: null }, "time", { ...CANVAS, width });
    const notes = /** @type {Note[]} */ (layout.annotations);
    assert.deepEqual(notes.map(({ text }) => text).sort(), ["<b>SPECTRA</b>", "Plain"]);
    const { margin, xaxis } = layout;
    const name = notes.find(({ text, xanchor }) => text !== "Plain" && xanchor === "left");
    if (!name) return;
    const at = margin.l + (name.x / (xaxis.range?.[1] ?? 1)) * (width - margin.l - margin.r) + name.xshift;
    assert.ok(at + 58 <= width, "58 px of Inter"); // it was taken for 49, and cut
  });

  test("have room for the whole answer while it is written", () => {
    const running = { ...OVER, method: EMPTY_LANE, over: false, level: null };
    const { traces, layout } = growthFigure(running, "time", CANVAS);
    assert.equal(traces.length, 2);
    assert.deepEqual(layout.xaxis.range, [0, 16 * 1.02]); // 64 tokens at a quarter of a second
    assert.deepEqual(layout.yaxis.range, [0, 64 * 1.1]);
  });

  test("are named and ticked at whole tokens where the answer is short", () => {
    const short = extend(
      EMPTY_LANE,
      Array.from({ length: 3 }, () => stepOf(["model"])),
    );
    const method = extend(EMPTY_LANE, [stepOf(["forward", "forward", "model"])]);
    const race = { ...OVER, plain: short, method, level: { tokens: 3, plain: 0.75, method: 0.25 } };
    const { layout } = growthFigure(race, "passes", CANVAS);
    const texts = /** @type {Note[]} */ (layout.annotations).map(({ text }) => text);
    assert.deepEqual(texts, ["Plain", "<b>SPECTRA</b>", "<b>2 passes saved</b>"]);
    assert.deepEqual([layout.xaxis.dtick, layout.yaxis.dtick], [1, 1]);
    const growing = growthFigure({ ...race, over: false, level: null }, "time", CANVAS).layout;
    assert.deepEqual([growing.annotations, growing.yaxis.dtick], [[], undefined]);
    const none = growthFigure({ ...race, method: EMPTY_LANE, level: null }, "time", CANVAS).layout;
    assert.deepEqual(
      /** @type {Note[]} */ (none.annotations).map(({ text }) => text),
      ["Plain"],
    );
  });

  test("save nothing where the method was slower", () => {
    const slower = { ...OVER, plain: METHOD, method: PLAIN, level: { tokens: 12, plain: 1, method: 3 } };
    const { traces, layout } = growthFigure(slower, "time", CANVAS);
    assert.equal(traces.length, 2);
    const notes = /** @type {{ text: string, yanchor: string }[]} */ (layout.annotations);
    const places = notes.map(({ text, yanchor }) => [text, yanchor]);
    assert.deepEqual(places, [
      ["<b>SPECTRA</b>", "top"], // below the faster line's name
      ["Plain", "bottom"],
    ]);
  });

  test("are named where the whole name has room", () => {
    const long = { ...OVER, name: "Paper: RETRIEVAL, unrefined" };
    const slow = { ...long, plain: METHOD, method: PLAIN, level: null };
    for (const race of [long, slow]) {
      const { layout } = growthFigure(race, "time", { ...CANVAS, width: 300 });
      const notes = /** @type {Note[]} */ (layout.annotations);
      const name = notes.find(({ text }) => text.includes(long.name));
      const [, far] = layout.xaxis.range ?? [];
      const at = 38 + ((name?.x ?? 0) / (far ?? 1)) * (300 - 38 - 14) + (name?.xshift ?? 0);
      const left = name?.xanchor === "left" ? at : at - 7 * long.name.length;
      assert.ok(left >= 0 && left + 7 * long.name.length <= 300, String(left));
    }
  });
});

describe("the name of a line", () => {
  /** @param {number[]} seconds of each step */
  const lane = (seconds) =>
    extend(
      EMPTY_LANE,
      seconds.map((each) => stepOf(["model"], { seconds: each })),
    );
  const bent = (/** @type {number} */ first, /** @type {number} */ then) =>
    lane(Array.from({ length: 40 }, (_, i) => (i < 20 ? first : then)));
  const [straight, faster, slower] = [bent(0.05, 0.05), bent(0.06, 0.02), bent(0.04, 0.08)];
  for (const [plain, method] of [
    [straight, faster],
    [faster, straight],
    [straight, slower],
    [slower, straight],
  ]) {
    test(`does not lie on the other one, ${plain.seconds.toFixed(1)} and ${method.seconds.toFixed(1)} s`, () => {
      const { traces, layout } = growthFigure({ ...OVER, plain, method, level: null }, "time", CANVAS);
      const { margin, xaxis, yaxis, width, height } = layout;
      const across = (/** @type {number} */ x) =>
        margin.l + (x / (xaxis.range?.[1] ?? 1)) * (width - margin.l - margin.r);
      const down = (/** @type {number} */ y) =>
        height - margin.b - (y / (yaxis.range?.[1] ?? 1)) * (height - margin.t - margin.b);
      const notes = /** @type {Note[]} */ (layout.annotations);
      assert.equal(notes.length, 2);
      for (const { text, x, y, xanchor, xshift } of notes) {
        const wide = 7 * text.replace(/<[^>]*>/g, "").length;
        const left = across(x) + xshift - (xanchor === "right" ? wide : 0);
        const top = down(y) - (xanchor === "right" ? 16 : 0);
        for (const trace of traces) {
          const [xs, ys] = /** @type {number[][]} */ ([trace.x, trace.y]);
          const within = xs.flatMap((each, i) =>
            Array.from({ length: 20 }, (_, part) => [
              across(each + (((xs[i + 1] ?? each) - each) * part) / 20),
              down(ys[i] + (((ys[i + 1] ?? ys[i]) - ys[i]) * part) / 20),
            ]).filter(([px, py]) => px > left && px < left + wide && py > top + 1 && py < top + 15),
          );
          assert.deepEqual(within, [], text);
        }
      }
    });
  }
});

/**
 * Two answers, by one token a pass and by two, after the same half of a second for the prompt.
 * @param {number} tokens
 * @param {number} seconds of a pass by two
 * @returns {Race}
 */
function shortRace(tokens, seconds) {
  /** @param {number} i */
  const first = (i) => (i ? {} : { prefill: 0.5 });
  const singles = Array.from({ length: tokens }, (_, i) => stepOf(["model"], first(i)));
  const doubles = Array.from({ length: Math.ceil(tokens / 2) }, (_, i) =>
    stepOf(["forward", "model"].slice(0, tokens - 2 * i), { seconds, ...first(i) }),
  );
  const [plain, method] = [extend(EMPTY_LANE, singles), extend(EMPTY_LANE, doubles)];
  return { ...OVER, plain, method, level: { tokens, plain: plain.seconds, method: method.seconds } };
}

/**
 * Where the notes of a chart are written, in px.
 * @param {Layout} layout
 */
function written({ margin, xaxis, yaxis, width, height, annotations }) {
  const [right, top] = [xaxis.range?.[1] ?? 1, yaxis.range?.[1] ?? 1];
  return /** @type {(Note & { yanchor: string })[]} */ (annotations).map((note) => {
    const text = note.text.replace(/<[^>]*>/g, "");
    const across = margin.l + (note.x / right) * (width - margin.l - margin.r) + (note.xshift ?? 0);
    const down = height - margin.b - (note.y / top) * (height - margin.t - margin.b);
    const left = note.xanchor === "right" ? across - 7 * text.length : across;
    return { text, left, right: left + 7 * text.length, top: note.yanchor === "top" ? down : down - 16 };
  });
}

test("a steep line is named beside the figures of its axis, not on them", () => {
  const plain = extend(
    EMPTY_LANE,
    Array.from({ length: 80 }, () => stepOf(["model"])),
  );
  const method = extend(
    EMPTY_LANE,
    Array.from({ length: 20 }, () => stepOf(["forward", "forward", "forward", "model"])),
  );
  const steep = { ...OVER, plain, method, level: null };
  for (const { text, left } of written(growthFigure(steep, "passes", { ...CANVAS, width: 349 }).layout)) {
    assert.ok(left >= 38, `${text} begins at ${left}`);
  }
});

describe("what is written in the chart of tokens", () => {
  for (const tokens of [1, 2, 4, 6, 9, 12, 30]) {
    test(`never lies on each other, in a race of ${tokens}`, () => {
      for (const seconds of [0.01, 0.2, 0.245, 0.4]) {
        const race = shortRace(tokens, seconds);
        const charts = [growthFigure(race, "time", CANVAS), growthFigure(race, "passes", CANVAS)];
        const named = charts.map(({ layout }) => written(layout).filter(({ text }) => !text.endsWith("saved")).length);
        assert.deepEqual(named, [2, 2]);
        for (const notes of charts.map(({ layout }) => written(layout))) {
          const pairs = notes.flatMap((a, i) => notes.slice(0, i).map((b) => ({ a, b })));
          const lying = pairs.filter(
            ({ a, b }) => a.left < b.right && b.left < a.right && Math.abs(a.top - b.top) < 14,
          );
          assert.deepEqual(lying, [], `${seconds} s`);
        }
      }
    });
  }
});

test("lines of short answers are ticked at whole tokens and passes", () => {
  const lane = extend(EMPTY_LANE, [stepOf(["model"]), stepOf(["model"])]);
  const rows = [{ lane: "a", method: "autoregressive", name: "Plain", tokens: 2, rate: 1, tau: 1, passes: 2 }];
  const shown = rows.map((row) => ({ ...row, differs: null }));
  const names = { entry: 40, height: 20 };
  const canvas = { ...CANVAS, ink: { ...INK, series: ["#000"] } };
  const passes = linesFigure(shown, { a: lane }, "passes", names, canvas).layout;
  assert.deepEqual([passes.xaxis.dtick, passes.yaxis.dtick], [1, 1]);
  const time = linesFigure(shown, { a: lane }, "time", names, canvas).layout;
  assert.deepEqual([time.xaxis.dtick, time.xaxis.nticks, time.yaxis.dtick], [undefined, 6, 1]);
  const long = linesFigure(shown, { a: PLAIN }, "passes", names, canvas).layout;
  assert.deepEqual([long.xaxis.dtick, long.yaxis.nticks], [undefined, 6]);
});

test("figures of the bars stand on paper, over the line of plain decoding", () => {
  const row = { tokens: 9, tau: 1, passes: 9, differs: null };
  const rows = [
    { ...row, lane: "a", method: "autoregressive", name: "Plain", rate: 40 },
    { ...row, lane: "b", method: "spectra", name: "SPECTRA", rate: 38.6 },
  ];
  const { traces, layout } = barsFigure(rows, false, CANVAS);
  assert.equal(traces[0].text, undefined); // text of bars has nothing under it
  const notes = /** @type {Record<string, unknown>[]} */ (layout.annotations);
  assert.deepEqual(
    notes.map(({ x, y, text, bgcolor }) => [x, y, text, bgcolor]),
    [
      [40, "Plain", "40", INK.paper],
      [38.6, "SPECTRA", "39", INK.paper],
    ],
  );
});

test("the bar of an answer that has not ended is pale and says so", () => {
  const row = {
    lane: "a",
    method: "spectra",
    name: "SPECTRA",
    passes: 2,
    tokens: 3,
    rate: 38.6,
    tau: 1.5,
    differs: null,
  };
  const { traces, layout } = barsFigure([{ ...row, open: true }, row], false, CANVAS);
  const marker = /** @type {{ opacity: number[] }} */ (traces[0].marker);
  assert.ok(marker.opacity[0] < 0.6 && marker.opacity[1] === 1);
  const notes = /** @type {{ text: string }[]} */ (layout.annotations);
  assert.deepEqual(
    notes.map(({ text }) => text),
    ["39 so far", "39"],
  );
});

test("what is said behind the bar of an answer that has not ended is not cut off", () => {
  const row = { lane: "a", method: "spectra", name: "SPECTRA", passes: 2, tokens: 3, tau: 1.5, differs: null };
  const room = (/** @type {boolean} */ open, rate = 12345.6) =>
    barsFigure(
      [
        { ...row, open, rate },
        { ...row, rate: 1 },
      ],
      false,
      CANVAS,
    ).layout.margin.r;
  assert.ok(room(true) > 82, String(room(true))); // px of "12,346 so far"
  assert.ok(room(true, 9.1) > 59 && room(true, 9.1) < room(true));
  assert.equal(room(false), 14);
});

test("a long name of a method goes over several lines, and a number stays with what it is of", () => {
  const name = "Paper: SPECTRA (N 4, W 128, G 9, refine 0.25, no sub-n-grams, no retrieval)";
  const row = { lane: "a", method: "a", name, passes: 1, tokens: 1, rate: 1, tau: 1, differs: null };
  const [narrow, wide] = [120, 1200].map((width) => wrapped([row], width)[0].name);
  assert.equal(wide, name);
  const lines = narrow.split("<br>");
  assert.equal(lines.join(" "), name);
  assert.ok(lines.every((line) => line.length <= 18 && !/^\d/.test(line)));
});

describe("tokens gained", () => {
  test("are stacked by source, with their mean", () => {
    const { traces, layout } = gainFigure(OVER, COLOURS, CANVAS);
    assert.ok(JSON.stringify(layout.xaxis.title).includes("forward pass"));
    assert.deepEqual(
      traces.map(({ y }) => y),
      [
        [2, 2, 2, 2],
        [1, 1, 1, 1],
        [3, 3, 3, 3],
      ],
    );
    const marker = /** @type {{ color: string }} */ (traces[0].marker);
    assert.equal(marker.color, "colour of forward");
  });

  test("have a mean of the last twelve steps", () => {
    const sizes = Array.from({ length: 30 }, (_, i) => 1 + (i % 5));
    const method = extend(
      EMPTY_LANE,
      sizes.map((size) => stepOf(Array(size).fill("model"))),
    );
    const mean = /** @type {number[]} */ (gainFigure({ ...OVER, method }, COLOURS, CANVAS).traces[1].y);
    for (const i of [0, 4, 11, 12, 29]) {
      const last = sizes.slice(Math.max(0, i - 11), i + 1);
      const expected = last.reduce((sum, size) => sum + size, 0) / last.length;
      assert.ok(Math.abs(mean[i] - expected) < 1e-9, `step ${i}`);
    }
  });
});

describe("the frame of a step", () => {
  const { layout } = gainFigure(OVER, COLOURS, CANVAS); // 400 px for 8.2 steps, from 0.4 on

  test("spans its bar from the axis to the top", () => {
    const perStep = 400 / 8.2;
    const frame = barFrame(layout, 2);
    assert.ok(Math.abs(frame.left - (38 + 2.1 * perStep)) < 0.01);
    assert.ok(Math.abs(frame.width - perStep) < 0.02);
    assert.deepEqual([frame.top, frame.height], [18, 176]);
  });

  test("is never too narrow to be seen", () => {
    const method = extend(EMPTY_LANE, Array(500).fill(stepOf(["model"])));
    const many = gainFigure({ ...OVER, method }, COLOURS, CANVAS);
    assert.equal(barFrame(many.layout, 250).width, 4);
  });
});

describe("accepted guesses", () => {
  /** @type {(n: number) => Step} */
  const judged = (n) =>
    stepOf(["model"], { judged: { forward: [n % 2, 1, 4], retrieval: n < 2 ? [1, 1, 1] : [0, 0, 0] } });
  const steps = Array.from({ length: 2 * WINDOW }, (_, n) => judged(n));

  test("are those of the last passes, of all guesses or of the judged ones", () => {
    const { x, lines } = shares(steps.slice(0, 3), ["forward", "retrieval"], "guessed");
    assert.deepEqual(x, [1, 2, 3]);
    assert.deepEqual(lines, [
      [0, 1 / 8, 1 / 12],
      [1, 1, 1],
    ]);
    assert.deepEqual(shares(steps.slice(0, 3), ["forward"], "reached").lines, [[0, 1 / 2, 1 / 3]]);
    const last = shares(steps, ["forward", "retrieval"], "reached").lines.map((line) => line.at(-1));
    assert.deepEqual(last, [1 / 2, null]);
  });

  test("of a source that guessed in one pass only are a point, which can be seen", () => {
    const late = [stepOf(["model"]), stepOf(["model"], { judged: { forward: [1, 2, 2] } })];
    const { traces } = acceptanceFigure(late, "guessed", true, COLOURS, CANVAS);
    assert.deepEqual(
      traces.map(({ y, mode }) => [y, mode]),
      [[[null, 0.5], "markers"]],
    );
    const [line] = acceptanceFigure(steps, "guessed", true, COLOURS, CANVAS).traces;
    assert.equal(line.mode, "lines");
  });

  test("are said to be none where nothing was offered or tried", () => {
    const said = (/** @type {Partial<Step>} */ more, over = true) => {
      const { traces, layout } = acceptanceFigure([stepOf(["model"], more)], "guessed", over, COLOURS, CANVAS);
      assert.ok(JSON.stringify(layout.xaxis.title).includes("forward pass"));
      assert.deepEqual(traces, []);
      return /** @type {Note[]} */ (layout.annotations)[0].text;
    };
    assert.equal(said({ offered: 0 }), "Nothing was offered");
    assert.equal(said({ judged: {} }, false), "Nothing was offered so far");
    assert.equal(said({ offered: 3 }), "None of 3 offered tokens was tried");
    assert.equal(acceptanceFigure([], "guessed", false, COLOURS, CANVAS).layout.annotations, undefined);
    assert.equal(acceptanceFigure(steps, "guessed", true, COLOURS, CANVAS).layout.annotations, undefined);
  });

  test("are drawn with no more points than can be told apart, the last one always", () => {
    const many = Array.from({ length: 1001 }, (_, n) => judged(n));
    const { traces } = acceptanceFigure(many, "guessed", true, COLOURS, CANVAS);
    const x = /** @type {number[]} */ (traces[0].x);
    assert.equal(traces.length, 2);
    assert.ok(x.length <= 161 && x.at(-1) === 1001);
    assert.deepEqual(traces[0].line, { color: "colour of forward", width: 2, dash: "7px,3px" });
  });
});

test("the figures of a sweep stand where the other line is not", () => {
  const row = { method: "spectra", name: "", tokens: 8, passes: 4, differs: null };
  const rows = [
    { ...row, lane: "a", tau: 2, rate: 60 },
    { ...row, lane: "b", tau: 2, rate: 125 },
    { ...row, lane: "c", tau: 2, rate: 20 },
  ];
  const { traces } = sweepFigure(rows, { letter: "W", values: { a: 0, b: 1, c: 2 } }, CANVAS);
  assert.deepEqual(traces[0].textposition, ["top center", "bottom center", "top center"]);
});

test("both axes of a sweep have as many round ticks", () => {
  assert.deepEqual(
    axesOf([2.58, 115]).map(({ range, dtick }) => [...range, dtick]),
    [
      [0, 3, 0.5],
      [0, 120, 20],
    ],
  );
  for (const most of [
    [1.15, 1.15],
    [3.7, 812],
    [9.99, 31.6],
  ]) {
    const axes = axesOf(most);
    for (const [i, { range, dtick }] of axes.entries()) {
      assert.ok(range[1] >= most[i] && range[1] < 1.7 * most[i], String(range));
      assert.ok(
        [1, 2, 2.5, 5, 10].some((step) => Math.abs(Math.log10(dtick / step) % 1) < 1e-9),
        String(dtick),
      );
    }
    assert.equal(new Set(axes.map(({ range, dtick }) => Math.round(range[1] / dtick))).size, 1);
  }
});
