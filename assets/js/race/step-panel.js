/** The panel about one step: its token tree and, in words, why it went as it did. */

import { make } from "../common/dom.js";
import { count, ending, plural } from "../common/format.js";
import { withOthers } from "../common/looks.js";
import { textBefore } from "../stream/lane.js";
import { factsOf, toldOf } from "../stream/step-facts.js";
import { attentionMask } from "./attention-mask.js";
import { dictionaries } from "./dictionaries.js";
import { gist, reasons } from "./step-reasons.js";
import { tokenTree } from "./token-tree.js";

/** @import { Parts } from "../common/dom.js" */
/** @import { Look } from "../common/tab.js" */
/** @import { Lane } from "../stream/lane.js" */
/** @import { Masked } from "./attention-mask.js" */

const CONTEXT = 90;

export class StepPanel {
  /**
   * @param {Parts} at
   * @param {Look[]} looks
   */
  constructor(at, looks) {
    this.at = at;
    this.looks = looks;
    /** @type {Masked | null} */
    this.seen = null;
    this.fold = /** @type {HTMLDetailsElement} */ (at("mask"));
    this.fold.addEventListener("toggle", () => this.showMask());
  }

  /**
   * @param {Lane} lane
   * @param {number} index of the step
   * @param {Record<number, string>} words text by token id
   * @param {boolean} drawn drafts were tested by their chances
   */
  show(lane, index, words, drawn) {
    const { at } = this;
    const step = lane.steps[index];
    const facts = factsOf(step);
    const guessed = plural(facts.guesses.length, "guess", "guesses");
    const gained = plural(step.sources.length, "token");
    const before = textBefore(lane, index);
    at("step-at").textContent = `${count(index + 1)} of ${count(lane.steps.length)}`;
    at("step-line").textContent = `${guessed}, one forward pass, ${gained}. Drag to any step.`;
    at("context").textContent = ending(before, CONTEXT);
    const names = new Map(withOthers(this.looks, toldOf(step)).map((look) => [look.source, look.name]));
    at("tree").replaceChildren(tokenTree(facts, step, words, names));
    at("dictionaries").hidden = !step.inside;
    at("held").replaceChildren(dictionaries(step, words));
    at("gist").textContent = gist(step, facts);
    const lines = reasons(step, facts, words, names, drawn);
    at("reasons").replaceChildren(...lines.map((text) => make("li", "", text)));
    this.seen = { tree: facts.tree, path: facts.path, words };
    this.showMask();
  }

  /** Drawn only while it is open: it is as high as the tree has nodes. */
  showMask() {
    if (this.seen && this.fold.open) this.at("sees").replaceChildren(attentionMask(this.seen));
  }
}
