/** What takes away a run waits until one that was asked for just before has told of itself: sooner none is ended. */

export class AfterBegun {
  /** @param {() => void} act */
  constructor(act) {
    this.act = act;
    this.asked = false;
    this.held = false;
  }

  /** A run is asked for. */
  ask() {
    this.asked = true;
    this.held = false;
  }

  /** A message came. */
  told() {
    this.asked = false;
    if (this.held) this.go();
  }

  /** At once where no run is on its way, or where this is asked for again: then it may have been dropped. */
  request() {
    if (this.asked && !this.held) this.held = true;
    else this.go();
  }

  go() {
    this.held = false;
    this.act();
  }
}
