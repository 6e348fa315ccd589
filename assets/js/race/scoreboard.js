/** The scoreboard: the big number, both bars on one clock, rates, badge and the line of fine print. */

import { make, write } from "../common/dom.js";
import { bare, count, percent, plural, ratio, seconds, sentence, speed } from "../common/format.js";
import { claimOf } from "./verdict.js";

/** @import { Parts } from "../common/dom.js" */
/** @import { ComparedFigures, LaneFigures, Level, RaceFigures } from "../stream/messages.js" */
/** @import { LaneView } from "./lane-view.js" */

/** @typedef {{ plain: LaneView, method: LaneView }} LaneViews */

const TEXTS = ["badge", "more", "rate-plain", "rate-method", "note-plain", "note-method", "fine", "why"];
/** @type {Record<string, string>} */
const CUT_SHORT = { stopped: "Stopped", failed: "Ended early" };

export const COMPARABLE = 8; // tokens, as in visual/wire/figures.py
const SMALLER = ", of trees that may be smaller than alone.";

export class Scoreboard {
  /** @param {Parts} at */
  constructor(at) {
    this.at = at;
    this.name = "";
  }

  empty() {
    this.begin("SPECTRA");
    this.score("How fast?");
    this.at("verdict").textContent = "Press Race to measure it";
    for (const name of ["plain", "method"]) this.at(`bar-${name}`).style.transform = "scaleX(0)";
  }

  /**
   * A figure stands large, words less so.
   * @param {string} text
   */
  score(text) {
    write(this.at("speedup"), text);
    this.at("speedup").parentElement?.classList.toggle("words", /[a-z]/i.test(text));
  }

  /** @param {string} name of the method */
  begin(name) {
    this.name = name;
    this.at("who").textContent = name;
    this.at("title").textContent = name;
    this.at("text-method").setAttribute("aria-label", `Answer of ${name}`);
    for (const id of TEXTS) this.at(id).textContent = "";
    this.at("badge").className = "badge";
    this.score("1×");
  }

  /**
   * While a race runs: how far ahead the method is of plain decoding at the same number of tokens.
   * @param {Level | null} level null before the method's first step
   */
  live(level) {
    if (!level) {
      write(this.at("note-method"), "its turn comes when plain is done");
      write(this.at("verdict"), "plain decoding goes first");
      return;
    }
    const few = level.tokens < COMPARABLE;
    if (!few) this.score(`${ratio(level.plain / level.method)}×`);
    write(this.at("verdict"), few ? "its turn has begun" : `so far, after ${plural(level.tokens, "token")}`);
  }

  /**
   * Others decode in the same passes: what a lane takes is not its own.
   * @param {number} others at most
   */
  share(others) {
    this.score("Shared");
    this.at("verdict").textContent = `with ${plural(others, "other")}: no speedup is claimed`;
    this.at("note-method").textContent = "";
  }

  /**
   * Both lanes as they were `time` seconds after their start; `span` seconds fill a bar.
   * @param {LaneViews} lanes
   * @param {number} time
   * @param {number} span
   */
  clock(lanes, time, span) {
    const moved = [];
    for (const [name, view] of Object.entries(lanes)) {
      if (view.reach(time)) moved.push(view);
      const done = Math.min(time, view.lane.seconds);
      this.at(`bar-${name}`).style.transform = `scaleX(${span ? done / span : 0})`;
      if (!view.lane.steps.length) continue;
      const tokens = view.lane.totals[view.reached];
      const rate = `${speed(done ? tokens / done : 0)} tokens/s, ${plural(view.reached, "pass", "passes")}`;
      const box = this.at(`rate-${name}`);
      if (!box.firstChild) box.append(make("b"), " ");
      write(/** @type {Node} */ (box.firstChild), seconds(done));
      write(/** @type {Node} */ (box.lastChild), ` ${rate}`);
      write(this.at(`note-${name}`), plural(tokens, "token"));
    }
    for (const view of moved) view.follow(); // reads the layout, once for all that was written
  }

  /**
   * @param {RaceFigures} figures
   * @param {string} state
   * @param {boolean} recorded
   */
  final(figures, state, recorded) {
    const cut = CUT_SHORT[state];
    if (!("level" in figures)) {
      this.noRace(figures.plain !== null, cut ?? "No race");
      return;
    }
    const { plain, method, whole, same, differs } = figures;
    if (figures.shared) this.share(figures.shared);
    else {
      const { score, verdict } = claimOf(figures, cut, recorded);
      this.score(score);
      this.at("verdict").textContent = verdict;
    }
    this.at("why").textContent = figures.why;
    this.badge(figures);
    const tau = make("b", "", `${ratio(method.tau)} tokens per forward pass (τ)`);
    const all = differs === null && whole ? `, ${same === 1 ? "one token" : `all ${count(same)} tokens`}. ` : ". ";
    this.at("more").replaceChildren(all, tau, figures.shared ? SMALLER : ".");
    this.at("fine").textContent =
      `First token after ${seconds(plain.first)} plain, ${seconds(method.first)} ${bare(this.name)}. ` +
      `${distinct(method)}${sentence(figures.cut)}`;
  }

  /**
   * @param {boolean} begun whether plain decoding wrote something
   * @param {string} score
   */
  noRace(begun, score) {
    const why = begun ? `${bare(this.name)} had not begun` : "nothing was written yet";
    this.at("verdict").textContent = `${why}: nothing to compare`;
    this.score(score);
    this.at("note-method").textContent = "";
  }

  /** @param {ComparedFigures} figures */
  badge({ differs, drawn, whole, same }) {
    const badge = this.at("badge");
    if (differs === null) {
      badge.className = "badge same";
      badge.textContent = whole ? "Identical output" : `Identical for ${plural(same, "token")}`;
    } else if (drawn) {
      badge.className = "badge";
      badge.textContent = "Another draw of the same distribution";
    } else {
      badge.className = "badge differs";
      badge.textContent = `First difference at token ${count(differs + 1)}`;
    }
  }
}

/**
 * How much an answer repeats itself; "" for one without a run of four tokens.
 * @param {LaneFigures} answer
 */
function distinct({ tokens, distinct4 }) {
  if (tokens < 4) return "";
  const repeats =
    distinct4 < 0.5 ? "it goes round in circles, which makes guessing easy" : "the lower, the more it repeats itself";
  return `Of the answer's runs of four tokens ${percent(distinct4)} are distinct: ${repeats}. `;
}
