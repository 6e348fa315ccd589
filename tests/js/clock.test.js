/** The clock on a timer of the test's own: it shows every frame, ends at its end, and stops when told. */

import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { Clock } from "../../assets/js/race/clock.js";

/** A clock whose frames come when the test says so. */
function scripted() {
  /** @type {number[]} */
  const shown = [];
  /** @type {Map<number, (now: number) => void>} */
  const waiting = new Map();
  let frames = 0;
  let ended = 0;
  const clock = new Clock(
    (time) => shown.push(time),
    () => {
      ended += 1;
    },
    {
      request: (tick) => {
        frames += 1;
        waiting.set(frames, tick);
        return frames;
      },
      cancel: (frame) => waiting.delete(frame),
    },
  );
  /** @param {number} now ms */
  const frame = (now) => {
    const ticks = [...waiting.values()];
    waiting.clear();
    for (const tick of ticks) tick(now);
    return ticks.length;
  };
  return { clock, shown, frame, ends: () => ended };
}

describe("the speed", () => {
  test("is real time up to 15 seconds, then a whole number that keeps within them", () => {
    assert.deepEqual(
      [0, 3, 15, 15.1, 31, 150].map((span) => Clock.speed(span)),
      [1, 1, 1, 2, 3, 10],
    );
  });
});

describe("a clock that was told no speed", () => {
  /** @param {boolean} matches */
  const browser = (matches) => Object.assign(globalThis, { matchMedia: () => ({ matches }) });
  after(() => Reflect.deleteProperty(globalThis, "matchMedia"));

  test("shows the end at once to a visitor who asked for little motion", () => {
    browser(true);
    const { clock, shown, ends } = scripted();
    clock.play(0, 31);
    assert.deepEqual([shown, ends(), clock.running], [[31], 1, false]);
  });

  test("has its own speed for all others", () => {
    browser(false);
    const { clock, shown, frame } = scripted();
    clock.play(0, 31);
    for (const now of [0, 1000]) frame(now);
    assert.deepEqual(shown, [0, 3]);
    clock.play(20, 31); // by what there is to show, not by where it ends
    for (const now of [2000, 3000]) frame(now);
    assert.deepEqual(shown.slice(2), [20, 21]);
  });
});

describe("a clock", () => {
  test("runs from its first frame on, at its speed, and ends once", () => {
    const { clock, shown, frame, ends } = scripted();
    clock.play(1, 3, 2);
    assert.ok(clock.running);
    for (const now of [5000, 5250, 5500, 6100]) frame(now);
    assert.deepEqual(shown, [1, 1.5, 2, 3]);
    assert.equal(ends(), 1);
    assert.ok(!clock.running);
    assert.equal(frame(7000), 0);
  });

  test("shows the end at once where no motion is wanted", () => {
    const { clock, shown, frame, ends } = scripted();
    clock.play(0, 4, Infinity);
    assert.deepEqual(shown, [4]);
    assert.equal(ends(), 1);
    assert.equal(frame(0), 0);
  });

  test("stops when it is halted, and says nothing of an end", () => {
    const { clock, shown, frame, ends } = scripted();
    clock.play(0, 4, 1);
    frame(0);
    clock.halt();
    assert.ok(!clock.running);
    assert.equal(frame(1000), 0);
    assert.deepEqual(shown, [0]);
    assert.equal(ends(), 0);
  });

  test("starts anew when it is played again", () => {
    const { clock, shown, frame } = scripted();
    clock.play(0, 4, 1);
    frame(0);
    frame(1000);
    clock.play(2, 4, 4);
    assert.equal(frame(9000), 1);
    frame(9250);
    assert.deepEqual(shown, [0, 1, 2, 3]);
  });
});
