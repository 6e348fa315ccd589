/** Work that is asked for often and done seldom: one at a time, a pause after each, and the last call always counts. */

export class Paced {
  /**
   * @param {() => Promise<void>} work
   * @param {() => number} pause ms after the work, looked up when it begins
   */
  constructor(work, pause) {
    this.work = work;
    this.pause = pause;
    this.busy = false;
    this.again = false;
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
        const pause = this.pause();
        await this.work();
        await new Promise((resolve) => setTimeout(resolve, pause));
      } while (this.again);
    } finally {
      this.busy = false;
    }
  }
}
