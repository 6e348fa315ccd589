/** The stream reducer: every message once and in order, gaps noticed, a snapshot makes good, nothing comes back. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { EMPTY, reduce } from "../../assets/js/stream/reducer.js";
import { beginOf, COMPARED, deltaOf, dice, endOf, frozen, snapshotOf, sourcesIn, stepOf } from "./support/runs.js";

/** @import { RunMessage, Step } from "../../assets/js/stream/messages.js" */
/** @import { Stream } from "../../assets/js/stream/reducer.js" */

const RACE = beginOf("r1", { plain: "autoregressive", method: "spectra" });
const NONE = { plain: 0, method: 0 };

/**
 * The stream after some messages. Both are frozen, so a reducer that writes to them fails.
 * @param {RunMessage[]} messages
 * @param {Stream} [stream]
 */
function after(messages, stream = EMPTY) {
  return messages.reduce((now, message) => frozen(reduce(now, frozen(message))), frozen(stream));
}

/** @param {Stream} stream */
const lanesOf = (stream) => stream.turns[stream.turns.length - 1].lanes;

describe("a race", () => {
  const first = stepOf(["model"], { prefill: 0.5 });
  const second = stepOf(["forward", "retrieval", "model"]);

  test("begins with empty lanes", () => {
    const stream = after([RACE]);
    const [turn] = stream.turns;
    assert.equal(turn.run, "r1");
    assert.equal(turn.state, "running");
    assert.deepEqual(Object.keys(turn.lanes), ["plain", "method"]);
    assert.deepEqual(turn.lanes.plain.steps, []);
    assert.equal(turn.end, null);
  });

  test("grows by what is new", () => {
    const stream = after([
      RACE,
      deltaOf("r1", NONE, { plain: [first], method: [] }),
      deltaOf("r1", { plain: 1, method: 0 }, { plain: [], method: [first, second] }),
    ]);
    assert.deepEqual(sourcesIn(lanesOf(stream).plain), ["model"]);
    assert.deepEqual(sourcesIn(lanesOf(stream).method), ["model", "forward", "retrieval", "model"]);
    assert.equal(stream.behind, false);
  });

  test("takes a step once though it was sent twice", () => {
    const stream = after([
      RACE,
      deltaOf("r1", NONE, { plain: [first], method: [] }),
      deltaOf("r1", NONE, { plain: [first, second], method: [] }),
    ]);
    assert.deepEqual(lanesOf(stream).plain.steps, [first, second]);
  });

  test("remembers with how many others a run was shared", () => {
    const before = after([RACE, deltaOf("r1", NONE, { plain: [first], method: [] }, { shared: 2 })]);
    const silent = reduce(before, deltaOf("r1", { plain: 1, method: 0 }, { plain: [], method: [first] }));
    assert.deepEqual([after([RACE]).turns[0].shared, silent.turns[0].shared], [0, 2]);
  });

  test("keeps the last level until there is a new one", () => {
    const level = { tokens: 1, plain: 0.75, method: 0.5 };
    const before = after([RACE, deltaOf("r1", NONE, { plain: [first], method: [first] }, { level })]);
    const silent = after([deltaOf("r1", { plain: 1, method: 1 }, { plain: [second], method: [] })], before);
    assert.deepEqual(silent.turns[0].level, level);
  });

  test("ends with the server's figures", () => {
    const end = endOf("r1", { plain: 1, method: 0 }, { figures: COMPARED, words: { 7: " x" } });
    const stream = after([RACE, deltaOf("r1", NONE, { plain: [first], method: [] }), end]);
    assert.equal(stream.turns[0].state, "done");
    assert.equal(stream.turns[0].end, end);
  });

  test("changes nothing once it has ended", () => {
    const whole = after([RACE, endOf("r1", NONE, { state: "stopped" })]);
    assert.equal(reduce(whole, deltaOf("r1", NONE, { plain: [first], method: [] })), whole);
    assert.equal(reduce(whole, endOf("r1", NONE)), whole);
    assert.equal(whole.turns[0].state, "stopped");
  });

  test("is replaced by the next race", () => {
    const next = beginOf("r2", RACE.lanes);
    const stream = after([
      RACE,
      deltaOf("r1", NONE, { plain: [first], method: [] }),
      endOf("r1", { plain: 1, method: 0 }),
      next,
    ]);
    assert.deepEqual(
      stream.turns.map(({ run }) => run),
      ["r2"],
    );
    assert.deepEqual(lanesOf(stream).plain.steps, []);
  });
});

describe("a gap", () => {
  const steps = [stepOf(["model"]), stepOf(["forward", "model"]), stepOf(["model"])];
  const held = after([RACE, deltaOf("r1", NONE, { plain: [steps[0]], method: [] })]);

  test("in the steps is noticed, and none of them is taken", () => {
    const stream = after([deltaOf("r1", { plain: 2, method: 0 }, { plain: [steps[2]], method: [] })], held);
    assert.equal(stream.behind, true);
    assert.deepEqual(lanesOf(stream), lanesOf(held));
  });

  test("before the end is noticed by the counts", () => {
    const stream = after([endOf("r1", { plain: 3, method: 0 })], held);
    assert.equal(stream.behind, true);
    assert.equal(stream.turns[0].state, "running");
  });

  test("is noticed by an end that counts fewer steps, too: they are another run's", () => {
    assert.equal(after([endOf("r1", NONE)], held).behind, true);
  });

  test("of a beginning is noticed by the run", () => {
    assert.equal(after([deltaOf("r2", NONE, { plain: [], method: [] })], held).behind, true);
    assert.equal(after([endOf("r2", NONE)], held).behind, true);
    assert.equal(after([endOf("r1", NONE)]).behind, true);
  });

  test("is told anew by every message that shows it", () => {
    const once = after([endOf("r1", { plain: 3, method: 0 })], held);
    const twice = after([endOf("r1", { plain: 3, method: 0 })], once);
    assert.equal(twice.behind, true);
    assert.notEqual(twice, once);
  });

  test("is made good by a snapshot, which is shown from its start", () => {
    const begin = beginOf("r1", RACE.lanes);
    const lost = after([endOf("r1", { plain: 3, method: 0 })], held);
    const end = endOf("r1", { plain: 3, method: 0 });
    const stream = after([snapshotOf(begin, { plain: steps, method: [] }, end)], lost);
    assert.equal(stream.behind, false);
    assert.deepEqual(lanesOf(stream).plain.steps, steps);
    assert.equal(stream.turns[0].state, "done");
    assert.notEqual(stream.turns[0].begin, held.turns[0].begin);
  });

  test("a snapshot that comes after the end of its run and was made before it changes nothing", () => {
    const end = endOf("r1", { plain: 3, method: 0 });
    const whole = snapshotOf(beginOf("r1", RACE.lanes), { plain: steps, method: [] }, end);
    const ended = after([whole], held);
    const late = snapshotOf(beginOf("r1", RACE.lanes), { plain: steps.slice(0, 2), method: [] }, null);
    assert.equal(reduce(ended, late), ended);
    assert.equal(after([whole], ended).turns[0].state, "done");
    assert.equal(after([{ ...late, run: "r2", begin: beginOf("r2", RACE.lanes) }], ended).turns[0].run, "r2");
  });

  test("is made good by the steps that were missing", () => {
    const lost = after([endOf("r1", { plain: 3, method: 0 })], held);
    const rest = deltaOf("r1", { plain: 1, method: 0 }, { plain: steps.slice(1), method: [] });
    const stream = after([rest], lost);
    assert.equal(stream.behind, false);
    assert.deepEqual(lanesOf(stream).plain.steps, steps);
  });

  test("is none any more where a run begins or a turn is taken back", () => {
    const lost = after([endOf("r1", { plain: 3, method: 0 })], held);
    assert.equal(lost.behind, true);
    assert.equal(after([beginOf("r2", RACE.lanes)], lost).behind, false);
    assert.equal(after([{ kind: "back", turn: 0 }], lost).behind, false);
  });

  test("is made good by a snapshot of a run that goes on", () => {
    const snapshot = snapshotOf(beginOf("r1", RACE.lanes), { plain: steps.slice(0, 2), method: [] }, null);
    const next = deltaOf("r1", { plain: 2, method: 0 }, { plain: [steps[2]], method: [] });
    const stream = after([snapshot, next], held);
    assert.equal(stream.turns[0].state, "running");
    assert.deepEqual(lanesOf(stream).plain.steps, steps);
  });
});

test("whatever is lost on the way, the stream holds a start of the run, and after a snapshot all of it", () => {
  for (let seed = 0; seed < 200; seed++) {
    const random = dice(seed);
    const steps = Array.from({ length: 30 }, (_, i) => stepOf([`s${i}`, "model"]));
    /** @type {Stream} */
    let stream = after([RACE]);
    let sent = 0;
    while (sent < steps.length) {
      const from = Math.max(0, sent - Math.floor(random() * 3));
      sent = Math.min(steps.length, sent + 1 + Math.floor(random() * 5));
      if (random() < 0.3) continue;
      stream = after(
        [deltaOf("r1", { plain: from, method: 0 }, { plain: steps.slice(from, sent), method: [] })],
        stream,
      );
      const { plain } = lanesOf(stream);
      assert.deepEqual(plain.steps, steps.slice(0, plain.steps.length));
      assert.ok(stream.behind || plain.steps.length === sent);
      if (!stream.behind) continue;
      stream = after(
        [snapshotOf(beginOf("r1", RACE.lanes), { plain: steps.slice(0, sent), method: [] }, null)],
        stream,
      );
      assert.equal(lanesOf(stream).plain.steps.length, sent);
    }
    const end = endOf("r1", { plain: steps.length, method: 0 });
    const last = after([end], stream);
    const whole = last.behind ? after([snapshotOf(RACE, { plain: steps, method: [] }, end)], last) : last;
    assert.equal(whole.turns[0].state, "done");
    assert.deepEqual(lanesOf(whole).plain.steps, steps);
  }
});

describe("a page that was cleared", () => {
  const cleared = after([RACE, deltaOf("r1", NONE, { plain: [stepOf(["model"])], method: [] }), { kind: "clear" }]);

  test("is empty", () => {
    assert.deepEqual(cleared.turns, []);
    assert.equal(cleared.behind, false);
  });

  test("drops what was on its way", () => {
    assert.equal(reduce(cleared, deltaOf("r1", NONE, { plain: [], method: [] })), cleared);
    assert.equal(reduce(cleared, endOf("r1", { plain: 9, method: 9 })), cleared);
    assert.equal(reduce(cleared, snapshotOf(RACE, { plain: [], method: [] }, null)), cleared);
  });

  test("still drops it when cleared once more", () => {
    const twice = after([{ kind: "clear" }], cleared);
    assert.equal(reduce(twice, endOf("r1", NONE)), twice);
  });

  test("takes the next run", () => {
    const stream = after([beginOf("r2", RACE.lanes)], cleared);
    assert.equal(stream.turns[0].run, "r2");
  });
});

describe("a conversation", () => {
  const lanes = { method: "spectra" };
  /**
   * @param {number} turn
   * @param {Step[]} steps
   * @returns {RunMessage[]}
   */
  const said = (turn, steps) => [
    beginOf(`t${turn}`, lanes, { turn }),
    deltaOf(`t${turn}`, { method: 0 }, { method: steps }, { turn }),
    endOf(`t${turn}`, { method: steps.length }, { turn }),
  ];
  const two = after([...said(0, [stepOf(["model"])]), ...said(1, [stepOf(["forward", "model"])])]);

  test("keeps every turn", () => {
    assert.deepEqual(
      two.turns.map(({ run, state }) => [run, state]),
      [
        ["t0", "done"],
        ["t1", "done"],
      ],
    );
    assert.deepEqual(sourcesIn(two.turns[0].lanes.method), ["model"]);
    assert.deepEqual(sourcesIn(two.turns[1].lanes.method), ["forward", "model"]);
  });

  test("takes the last turn back", () => {
    const one = after([{ kind: "back", turn: 1 }], two);
    assert.deepEqual(one.turns, [two.turns[0]]);
    assert.deepEqual(after([{ kind: "back", turn: 0 }], one).turns, []);
  });

  test("replaces a turn that is sent from its start again", () => {
    const steps = [stepOf(["retrieval", "model"]), stepOf(["model"])];
    const snapshot = snapshotOf(beginOf("t1", lanes), { method: steps }, endOf("t1", { method: 2 }), { turn: 1 });
    const stream = after([snapshot], two);
    assert.equal(stream.turns.length, 2);
    assert.equal(stream.turns[0], two.turns[0]);
    assert.deepEqual(stream.turns[1].lanes.method.steps, steps);
  });

  const readout = {
    tokens: 3,
    seconds: 1,
    first: 0.2,
    rate: 4,
    tau: 2,
    prompt: 5,
    kept: 0,
    plain: 2,
    context: 9,
    estimate: 2,
  };

  test("has the readout of an end, and of a snapshot with one", () => {
    const ended = after([beginOf("t0", lanes, { turn: 0 }), endOf("t0", { method: 0 }, { turn: 0, readout })]);
    assert.deepEqual(ended.turns[0].readout, readout);
    const snapshot = snapshotOf(beginOf("t0", lanes), { method: [] }, endOf("t0", { method: 0 }), { turn: 0, readout });
    assert.deepEqual(after([snapshot]).turns[0].readout, readout);
  });

  test("keeps the readout that came with its last steps, and has none before", () => {
    const begin = beginOf("t0", lanes, { turn: 0 });
    const step = { method: [stepOf(["model"])] };
    const last = after([begin, deltaOf("t0", { method: 0 }, step, { turn: 0, readout })]);
    assert.deepEqual(after([deltaOf("t0", { method: 1 }, step, { turn: 0 })], last).turns[0].readout, readout);
    assert.equal(after([begin, deltaOf("t0", { method: 0 }, step, { turn: 0 })]).turns[0].readout, null);
  });
});

test("a comparison has its methods in order and the rows of those that ended", () => {
  const lanes = { autoregressive: "autoregressive", spectra: "spectra" };
  const row = {
    lane: "autoregressive",
    method: "autoregressive",
    name: "Plain",
    tokens: 1,
    rate: 4,
    tau: 1,
    passes: 1,
    differs: null,
  };
  const none = { autoregressive: 0, spectra: 0 };
  const stream = after([
    beginOf("c1", lanes),
    deltaOf("c1", none, { autoregressive: [stepOf(["model"])], spectra: [] }, { rows: [row] }),
  ]);
  assert.deepEqual(Object.keys(lanesOf(stream)), ["autoregressive", "spectra"]);
  assert.deepEqual(stream.turns[0].rows, [row]);
  const ended = after([endOf("c1", { autoregressive: 1, spectra: 0 }, { rows: [row, row] })], stream);
  assert.equal(ended.turns[0].rows.length, 2);
  const silent = after([deltaOf("c1", { ...none, autoregressive: 1 }, { autoregressive: [], spectra: [] })], stream);
  assert.deepEqual(silent.turns[0].rows, [row]);
  assert.deepEqual(after([endOf("c1", { autoregressive: 1, spectra: 0 })], silent).turns[0].rows, [row]);
});
