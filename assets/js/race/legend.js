/** A button for every source: its look, how many tokens it gave, how many guesses held. It toggles the colour. */

import { button, make } from "../common/dom.js";
import { count, percent } from "../common/format.js";

/** @import { Look } from "../common/tab.js" */
/** @import { LaneFigures } from "../stream/messages.js" */

/** @typedef {{ button: HTMLButtonElement, total: HTMLElement, share: HTMLElement }} Chip */

export class Legend {
  /**
   * @param {HTMLElement} box
   * @param {HTMLElement} stage its class says which colours are off
   * @param {Look[]} looks
   * @param {() => void} changed
   */
  constructor(box, stage, looks, changed) {
    this.stage = stage;
    this.changed = changed;
    this.chips = new Map(looks.map((look) => [look.source, this.chip(look)]));
    for (const chip of this.chips.values()) box.append(chip.button);
  }

  /**
   * @param {Look} look
   * @returns {Chip}
   */
  chip({ source, name, meaning }) {
    const chip = button(`chip ${source}`, "", () => this.toggle(source));
    const total = make("b");
    const share = make("small");
    chip.title = meaning;
    chip.setAttribute("aria-pressed", "true");
    chip.append(make("i", "swatch"), make("span", "", name), total, share);
    return { button: chip, total, share };
  }

  /** @param {string} source */
  shown(source) {
    return this.chips.get(source)?.button.getAttribute("aria-pressed") === "true";
  }

  /** @param {string} source */
  toggle(source) {
    const on = !this.shown(source);
    this.chips.get(source)?.button.setAttribute("aria-pressed", String(on));
    this.stage.classList.toggle(`off-${source}`, !on);
    this.changed();
  }

  /**
   * @param {Map<string, number> | null} tokens in the answer, by source
   * @param {LaneFigures | null} [figures] of the whole answer, once known
   */
  show(tokens, figures = null) {
    for (const [source, { button: chip, total, share }] of this.chips) {
      const given = tokens?.get(source) ?? 0;
      const rate = figures?.acceptance[source];
      total.textContent = tokens ? count(given) : "";
      const echo = Boolean(tokens) && !given; // others had the same guesses before it
      share.textContent = rate === undefined ? "" : acceptance(rate, echo);
      if (rate !== undefined)
        share.title = `of the ${count(figures?.offered[source] ?? 0)} guesses that the model got to judge`;
      chip.hidden = !given && !figures?.offered[source];
    }
  }
}

/**
 * @param {number} rate
 * @param {boolean} echo
 */
function acceptance(rate, echo) {
  return rate > 0 && echo ? "agreed with others" : `${percent(rate)} accepted`;
}
