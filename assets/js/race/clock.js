/** Time that runs on the screen, from one moment to another; at its own speed never for more than `LONGEST` seconds. */

import { calm } from "../common/dom.js";

const LONGEST = 15;

/**
 * The browser's frames; a test has its own.
 * @typedef {{ request: (tick: (now: number) => void) => number, cancel: (frame: number) => void }} Frames
 */

/** @type {Frames} */
const FRAMES = {
  request: (tick) => requestAnimationFrame(tick),
  cancel: (frame) => cancelAnimationFrame(frame),
};

export class Clock {
  /**
   * @param {(time: number) => void} show
   * @param {() => void} ended
   * @param {Frames} [frames]
   */
  constructor(show, ended, frames = FRAMES) {
    this.show = show;
    this.ended = ended;
    this.frames = frames;
    this.frame = 0;
  }

  get running() {
    return this.frame !== 0;
  }

  /** @param {number} span seconds to show */
  static speed(span) {
    return Math.max(1, Math.ceil(span / LONGEST));
  }

  /**
   * @param {number} from
   * @param {number} to
   * @param {number} [speed] seconds shown a second. One that was asked for is kept even where motion is unwelcome: it
   *   is the visitor's.
   */
  play(from, to, speed = calm() ? Infinity : Clock.speed(to - from)) {
    this.halt();
    if (speed === Infinity) {
      this.show(to);
      this.ended();
      return;
    }
    /** @type {number | null} */
    let begun = null;
    /** @param {number} now */
    const tick = (now) => {
      begun ??= now;
      const time = Math.min(to, from + (speed * (now - begun)) / 1000);
      this.show(time);
      this.frame = time < to ? this.frames.request(tick) : 0;
      if (!this.frame) this.ended();
    };
    this.frame = this.frames.request(tick);
  }

  halt() {
    this.frames.cancel(this.frame);
    this.frame = 0;
  }
}
