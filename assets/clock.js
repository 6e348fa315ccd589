// Time that runs on the screen: from one moment to another, at a pace that never takes longer than `LONGEST` seconds.
import { calm } from "./format.js";

const LONGEST = 15;

export class Clock {
  constructor(show, ended) {
    this.show = show;
    this.ended = ended;
    this.frame = 0;
  }

  get running() {
    return this.frame !== 0;
  }

  static pace(span) {
    return Math.max(1, Math.ceil(span / LONGEST));
  }

  // pace: seconds shown a second. One that was asked for is kept even where motion is unwelcome: it is the visitor's.
  play(from, to, pace = calm() ? Infinity : Clock.pace(to - from)) {
    this.halt();
    if (pace === Infinity) {
      this.show(to);
      this.ended();
      return;
    }
    let begun = null;
    const tick = (now) => {
      begun ??= now;
      const time = Math.min(to, from + (pace * (now - begun)) / 1000);
      this.show(time);
      this.frame = time < to ? requestAnimationFrame(tick) : 0;
      if (!this.frame) this.ended();
    };
    this.frame = requestAnimationFrame(tick);
  }

  halt() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
  }
}
