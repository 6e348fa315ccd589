/** One turn of a conversation on the page: what the visitor said, the answer, and the line of what it gained. */

import { make } from "../common/dom.js";
import { count, plural, ratio, seconds, speed } from "../common/format.js";
import { LaneView } from "../race/lane-view.js";

/** @import { Readout } from "../stream/messages.js" */

/**
 * The outcome of racing a turn against plain decoding. No speedup: the race was stopped.
 * @typedef {object} Measured
 * @property {number | null} [speedup]
 * @property {string} [why] what kept it from being faster
 * @property {number | null} [differs] index of the first token that differs
 * @property {boolean} [drawn] the method draws a text of its own
 * @property {number} [kept] tokens in the cache that both answers began with
 * @property {string | null} [problem]
 */

export class TurnView {
  /**
   * @param {string} prompt
   * @param {string} name of the method
   */
  constructor(prompt, name) {
    const text = make("div", "text");
    const answer = make("article", "card lane method");
    this.name = name;
    this.lane = new LaneView(text, true);
    this.note = make("p", "readout");
    this.box = make("section", "turn");
    answer.append(text, this.note);
    this.box.append(make("p", "user", prompt), answer);
  }

  /**
   * What the answer cost, where nothing is known to compare it with.
   * @param {Readout} readout
   */
  rate(readout) {
    const { rate, tokens, first } = readout;
    const unit = unitOf(readout);
    const wrote = tokens ? `${plural(tokens, unit)}, the first after ${seconds(first)}` : "";
    const cost = [wrote, ...endings(readout)].filter(Boolean).join("; ");
    if (rate) this.note.replaceChildren(make("b", "", `${speed(rate)} ${unit}s/s`), ` for ${cost}`);
    else this.note.textContent = cost; // it came at once
  }

  /**
   * What the answer gained over plain decoding at the rate that was measured.
   * @param {Readout} readout
   */
  estimate(readout) {
    const { estimate, shared, few, warm, kept, prompt } = readout;
    const what = [
      `${plural(readout.tokens, "token")} at ${speed(readout.rate)} tokens/s`,
      `${ratio(readout.tau)} tokens a pass`,
    ].join(", ");
    const measured = `plain decoding ran ${speed(readout.plain)} tokens/s after ${plural(readout.context, "token")}`;
    const busier = `${measured}, on a busier machine: measure it again`;
    const none = readout.plain ? busier : "plain decoding was not measured yet";
    const told = estimate ? ` estimated: ${what}; ${measured}` : ` estimate: ${what}; ${none}`;
    const alone = few ? ` to compare: ${what}` : told;
    const text = shared ? ` with ${plural(shared, "other")}: ${what}; no speedup is claimed` : alone;
    const gain = estimate ? `≈ ${ratio(estimate)}×` : "No";
    const own = few ? "Too short" : gain;
    const mark = shared ? "Shared" : own;
    this.note.replaceChildren(make("b", "estimate", mark), make("span", "", text));
    if (warm !== null && warm !== undefined) this.note.append(make("span", "kept warm", warmth(warm)));
    if (kept) {
      const read = `${count(kept)} of ${plural(prompt, "prompt token")} kept from the turn before, the rest read now`;
      this.note.append(make("span", "kept", read));
    }
  }

  /**
   * The answer has no end, and is not to be read as a whole one.
   * @param {string} mark
   */
  cutShort(mark) {
    this.note.append(make("span", "cut", mark));
  }

  measuring() {
    this.replaceMeasured(make("span", "measured", "Racing this turn against plain decoding …"));
  }

  /**
   * @param {Measured} outcome
   * @returns {string} the line about it
   */
  measured(outcome) {
    const { problem, speedup } = outcome;
    const note = make("span", "measured");
    if (problem) note.textContent = problem;
    else if (speedup) note.append(make("b", "", `${ratio(speedup)}×`), comparison(outcome));
    else note.textContent = "The race of this turn was stopped.";
    this.replaceMeasured(note);
    return note.textContent ?? "";
  }

  /** @param {HTMLElement} note */
  replaceMeasured(note) {
    this.note.querySelector(".measured")?.remove();
    this.note.append(note);
  }
}

/**
 * What the tokens of a readout are.
 * @param {Readout} readout
 */
function unitOf({ pieces }) {
  return pieces ? "piece" : "token";
}

/**
 * What a server's answer lacks, and why it ended there.
 * @param {Readout} readout
 */
function endings({ end, blank }) {
  const cut = end === "length" ? "cut off at the limit of tokens" : `ended by the server: ${end}`;
  return [blank ? "nothing to show was written" : "", end ? cut : ""];
}

/** @param {number} answers that it was taught by */
function warmth(answers) {
  return answers
    ? `warm: guesses from what ${plural(answers, "answer")} before taught`
    : "warm from the next answer on: nothing was learned yet";
}

/** @param {Measured} outcome */
function comparison({ kept, differs, drawn, why }) {
  const start = kept ? `from copies of the same ${plural(kept, "kept token")}` : "from an empty cache";
  const same = agreement(differs ?? null, Boolean(drawn));
  return ` measured by racing this turn, prefill included, both answers ${start}: ${same}${why ? `. ${why}` : ""}`;
}

/**
 * @param {number | null} differs
 * @param {boolean} drawn
 */
function agreement(differs, drawn) {
  if (differs === null) return "identical output";
  return drawn ? "another draw of the same distribution" : `first difference at token ${count(differs + 1)}`;
}
