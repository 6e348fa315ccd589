/** One answer as text. Steps are appended as they come; `reach(time)` fades what the clock has not come to yet. */

import { make } from "../common/dom.js";
import { EMPTY_LANE, stepsAt } from "../stream/lane.js";
import { classesOf, Transcript } from "../stream/transcript.js";

/** @import { Lane } from "../stream/lane.js" */
/** @import { Step } from "../stream/messages.js" */
/** @import { Piece } from "../stream/transcript.js" */

export class LaneView {
  /**
   * @param {HTMLElement} box
   * @param {boolean} [marked] whether steps are told apart by hairline and tint
   */
  constructor(box, marked = false) {
    this.box = box;
    /** @type {Lane} */
    this.lane = EMPTY_LANE;
    this.transcript = new Transcript(marked);
    /** @type {HTMLElement[]} one for each step */
    this.spans = [];
    /** @type {Map<Piece, HTMLElement>} */
    this.nodes = new Map();
    this.reached = 0;
    this.box.replaceChildren();
    this.box.scrollTop = 0;
  }

  /**
   * Write what is not written yet.
   * @param {Lane} lane
   */
  show(lane) {
    this.lane = lane;
    const fresh = lane.steps.slice(this.spans.length);
    if (!fresh.length) return;
    if (!this.spans.length) this.box.replaceChildren();
    const batch = document.createDocumentFragment();
    for (const step of fresh) batch.append(...this.add(step));
    this.box.append(batch);
    this.reached = this.spans.length;
  }

  /** @param {Step} step */
  add(step) {
    const { gap, pieces, leftward, fenced } = this.transcript.add(step);
    for (const piece of fenced) this.nodes.get(piece)?.classList.add("code");
    const span = make("span", leftward ? "step leftward" : "step");
    span.dataset.step = String(this.spans.length);
    span.append(...pieces.map((piece) => this.piece(piece)));
    this.spans.push(span);
    return gap ? [make("span", pieces[0].code ? "code" : "", gap), span] : [span];
  }

  /** @param {Piece} piece */
  piece(piece) {
    const node = make("i", classesOf(piece), piece.text);
    node.dataset.sources = piece.sources.join(",");
    if (piece.offers.some((each) => each.length > 1)) node.dataset.offers = piece.offers.join(";");
    this.nodes.set(piece, node);
    return node;
  }

  /**
   * @param {number} time
   * @returns {boolean} whether that changed something; `follow` is left to the caller, who writes everything first
   */
  reach(time) {
    const reached = stepsAt(this.lane, time);
    if (reached === this.reached) return false;
    for (const span of this.spans.slice(this.reached, reached)) span.classList.remove("ahead");
    for (const span of this.spans.slice(reached, this.reached)) span.classList.add("ahead");
    this.reached = reached;
    return true;
  }

  /** Keep the newest text in view, unless the reader is holding the lane. */
  follow() {
    if (this.box.matches(":hover, :focus")) return;
    const last = this.spans[this.reached - 1];
    this.box.scrollTop = last ? last.offsetTop + last.offsetHeight - this.box.clientHeight + 24 : 0;
  }

  /**
   * @param {number | null} step
   * @param {string} name
   * @param {boolean} on
   */
  mark(step, name, on) {
    if (step !== null) this.spans[step]?.classList.toggle(name, on);
  }

  /**
   * Outline the piece that holds an output token.
   * @param {number} index
   */
  flag(index) {
    const piece = this.transcript.pieceOf(index);
    if (piece) this.nodes.get(piece)?.classList.add("differs");
  }
}
