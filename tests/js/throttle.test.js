/** Work that is asked for often: never two at a time, and what was asked last is done. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Throttle } from "../../assets/js/common/throttle.js";

/** A pause that is not ended, or work without end, fails. */
const SOON = { timeout: 20_000 };

test("many calls while it works are one more round, and the last call counts", SOON, async () => {
  let wanted = 0;
  let busy = 0;
  /** @type {number[]} */
  const done = [];
  const throttle = new Throttle(
    async () => {
      busy += 1;
      assert.equal(busy, 1);
      const now = wanted;
      await new Promise((resolve) => setTimeout(resolve, 2));
      done.push(now);
      busy -= 1;
    },
    () => 0,
  );
  wanted = 1;
  const first = throttle.ask();
  for (wanted = 2; wanted < 9; wanted++) await throttle.ask();
  await first;
  assert.deepEqual(done, [1, 9]);
  wanted = 10;
  await throttle.ask();
  assert.deepEqual(done, [1, 9, 10]);
});

test("who hurries ends the pause", SOON, async () => {
  let done = 0;
  const throttle = new Throttle(
    async () => {
      done += 1;
    },
    () => (done ? 0 : 60_000),
  );
  const first = throttle.ask();
  await new Promise((resolve) => setTimeout(resolve));
  assert.equal(done, 1);
  throttle.ask();
  await throttle.hurry();
  await first;
  assert.equal(done, 2);
});

test("who hurries while it works waits for no pause", SOON, async () => {
  let done = 0;
  const throttle = new Throttle(
    async () => {
      await new Promise((resolve) => setTimeout(resolve, 2));
      done += 1;
    },
    () => (done ? 0 : 60_000),
  );
  const first = throttle.ask();
  await throttle.hurry();
  await first;
  assert.equal(done, 2);
});

test("the pause is the one that was asked for when the work began", SOON, async () => {
  let pause = 0;
  /** @type {number[]} */
  const rested = [];
  const throttle = new Throttle(
    async () => {
      pause = 60_000;
    },
    () => pause,
  );
  throttle.rest = async (given) => {
    rested.push(given);
  };
  await throttle.ask();
  assert.deepEqual(rested, [0]);
});

test("work that fails is told of, and the next is done", SOON, async () => {
  let done = 0;
  const throttle = new Throttle(
    async () => {
      done += 1;
      if (done === 1) throw new Error("the first");
    },
    () => 0,
  );
  await assert.rejects(throttle.ask(), /the first/);
  await throttle.ask();
  assert.equal(done, 2);
});
