/** Work that is asked for often and done seldom: one at a time, a pause after each, and the last call always counts. */

export class Throttle {
  /**
   * @param {() => Promise<void>} work
   * @param {() => number} pause ms after the work, looked up when it begins
   */
  constructor(work, pause) {
    this.work = work;
    this.pause = pause;
    this.busy = false;
    this.again = false;
    this.hurried = false;
    /** @type {(() => void) | null} ends the pause that is going on */
    this.wake = null;
  }

  /** Not after the pause but at once, or after the work that goes on. */
  async hurry() {
    this.hurried = true;
    this.wake?.();
    await this.ask();
  }

  /** @returns {Promise<void>} */
  async ask() {
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    try {
      do {
        this.again = false;
        this.hurried = false;
        const pause = this.pause();
        await this.work();
        if (!this.hurried) await this.rest(pause);
      } while (this.again);
    } finally {
      this.busy = false;
    }
  }

  /**
   * @param {number} pause
   * @returns {Promise<void>}
   */
  rest(pause) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, pause);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
