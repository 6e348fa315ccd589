/** What takes away a run waits for the run that was asked for just before. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { AfterBegun } from "../../assets/js/common/after-begun.js";

const counted = () => {
  let times = 0;
  const clearing = new AfterBegun(() => {
    times += 1;
  });
  return { clearing, times: () => times };
};

test("nothing is waited for where no run is on its way", () => {
  const { clearing, times } = counted();
  clearing.request();
  clearing.ask();
  clearing.told();
  clearing.request();
  assert.equal(times(), 2);
});

test("a run that was asked for is cleared once it has told of itself, and not again", () => {
  const { clearing, times } = counted();
  clearing.ask();
  clearing.request();
  assert.equal(times(), 0);
  clearing.told();
  clearing.told();
  assert.equal(times(), 1);
});

test("a second request does not wait, and the next run is not cleared by the first", () => {
  const { clearing, times } = counted();
  clearing.ask();
  clearing.request();
  clearing.request();
  assert.equal(times(), 1);
  clearing.ask();
  clearing.request();
  clearing.ask();
  clearing.told();
  assert.equal(times(), 1);
});
