/**
 * A button for every source: its look, how many tokens it gave, how many guesses held. It toggles the colour. Beside
 * them, whether a token that several sources offered counts for the first one or for each.
 */

import { Choice } from "../common/choice.js";
import { button, make, write } from "../common/dom.js";
import { count, percent, plural } from "../common/format.js";
import { withOthers } from "../common/looks.js";
import { Tally } from "../stream/lane.js";
import { classOf } from "../stream/step-facts.js";

/** @import { Look } from "../common/tab.js" */
/** @import { LaneFigures, Step } from "../stream/messages.js" */

/** @typedef {{ button: HTMLButtonElement, total: HTMLElement, more: HTMLElement, share: HTMLElement }} Chip */
/** @typedef {"guessed" | "reached"} Of which guesses a share is of */

/**
 * steps: of the answer so far. figures: of the whole answer, once known. of: which guesses the shares are of.
 * @typedef {object} Shown
 * @property {readonly Step[]} steps
 * @property {LaneFigures | null} figures
 * @property {Of} of
 */

export class Legend {
  /**
   * @param {HTMLElement} box
   * @param {HTMLElement} stage its class says which colours are off
   * @param {Look[]} looks
   * @param {() => void} changed
   */
  constructor(box, stage, looks, changed) {
    this.box = box;
    this.stage = stage;
    this.changed = changed;
    /** @type {Shown | null} */
    this.last = null;
    this.tally = new Tally();
    /** @type {Map<string, Chip>} */
    this.chips = new Map();
    this.looks = looks;
    this.add(looks);
    this.credit = new Choice("Count", { first: "first offers", every: "all offers" }, () => this.show(this.last));
    box.append(this.credit.box);
  }

  /**
   * A chip for each, before the choice of what is counted.
   * @param {Look[]} looks
   */
  add(looks) {
    for (const look of looks) {
      const chip = this.chip(look);
      this.chips.set(look.source, chip);
      this.box.insertBefore(chip.button, this.credit?.box ?? null);
    }
  }

  /**
   * Chips for sources that are none of the project's own, and the rule that takes their colour from the text.
   * @param {Iterable<string>} sources
   */
  meet(sources) {
    const looks = withOthers(this.looks, sources);
    const others = looks.slice(this.looks.length);
    this.looks = looks;
    this.add(others);
    const rules = others.map(({ source }) => `.off-${source} .t.${classOf(source)}{background:none!important}`);
    if (rules.length) this.box.append(make("style", "", rules.join("")));
  }

  /**
   * @param {Look} look
   * @returns {Chip}
   */
  chip({ source, name }) {
    const chip = button(`chip ${classOf(source)}`, "", () => this.toggle(source));
    const total = make("b");
    const more = make("em");
    const share = make("small");
    chip.setAttribute("aria-pressed", "true");
    chip.append(make("i", "swatch"), make("span", "", name), total, more, share);
    return { button: chip, total, more, share };
  }

  /** @param {string} source */
  shown(source) {
    return this.chips.get(source)?.button.getAttribute("aria-pressed") !== "false";
  }

  /** @param {string} source */
  toggle(source) {
    const on = !this.shown(source);
    this.chips.get(source)?.button.setAttribute("aria-pressed", String(on));
    this.stage.classList.toggle(`off-${source}`, !on);
    this.changed();
  }

  /** @param {Shown | null} shown null for no answer */
  show(shown) {
    this.last = shown;
    const { first, every } = this.tally;
    this.tally.count(shown?.steps ?? []);
    this.meet([...every.keys(), ...Object.keys(shown?.figures?.guessed ?? {})]);
    this.credit.box.hidden = [...every].every(([source, tokens]) => tokens === first.get(source));
    for (const look of this.looks) this.fill(look, first.get(look.source) ?? 0, every.get(look.source) ?? 0);
  }

  /**
   * @param {Look} look
   * @param {number} first tokens it offered first
   * @param {number} every tokens it offered
   */
  fill({ source, meaning }, first, every) {
    const { button: chip, total, more, share } = /** @type {Chip} */ (this.chips.get(source));
    const { figures = null, of = "guessed" } = this.last ?? {};
    const rate = figureOf(of === "guessed" ? figures?.of_guessed : figures?.acceptance, source);
    const all = figureOf(figures?.guessed, source) ?? 0;
    const guesses = of === "guessed" ? all : (figureOf(figures?.offered, source) ?? 0);
    const counted = this.credit.value === "first" ? first : every;
    write(total, this.last ? count(counted) : "");
    write(more, every > counted ? `+${count(every - counted)} shared` : "");
    write(share, rate === undefined ? "" : `${percent(rate)} accepted`);
    const judged = of === "guessed" ? "" : " that the model got to judge";
    const made = plural(guesses, "guess", "guesses");
    const acceptance = rate === undefined ? "" : ` Accepted: ${percent(rate)} of ${made}${judged}.`;
    const both = every ? ` Of the answer's tokens it offered ${count(every)}, ${count(first)} of them first.` : "";
    chip.title = `${meaning}.${source === "model" ? "" : both + acceptance}`;
    chip.hidden = !every && !all;
  }
}

/**
 * What a record has of a source; undefined where it has nothing. A source may be called "constructor".
 * @param {Record<string, number> | undefined} record
 * @param {string} source
 */
const figureOf = (record, source) => (record && Object.hasOwn(record, source) ? record[source] : undefined);
