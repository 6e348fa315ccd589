/** One step, outlined wherever it is drawn: in the text, in the bars, and opened in the step panel. */

import { make } from "../common/dom.js";
import { count, list, plural } from "../common/format.js";
import { withOthers } from "../common/looks.js";
import { offersOf } from "../stream/lane.js";
import { toldOf } from "../stream/step-facts.js";

/** @import { RaceCharts } from "../charts/race-charts.js" */
/** @import { Parts } from "../common/dom.js" */
/** @import { Look } from "../common/tab.js" */
/** @import { Step } from "../stream/messages.js" */
/** @import { LaneView } from "./lane-view.js" */
/** @import { StepPanel } from "./step-panel.js" */

export class StepLinks {
  /**
   * @param {Parts} at
   * @param {Look[]} looks
   * @param {RaceCharts} charts
   * @param {StepPanel} panel
   */
  constructor(at, looks, charts, panel) {
    this.at = at;
    this.looks = looks;
    this.charts = charts;
    this.panel = panel;
    this.slider = /** @type {HTMLInputElement} */ (at("step-slider"));
    /** @type {LaneView | null} */
    this.view = null;
    /** @type {Record<number, string>} text by token id */
    this.words = {};
    this.drawn = false;
    this.ready = false;
    /** @type {number | null} under the pointer */
    this.lit = null;
    /** @type {number | null} open in the panel */
    this.chosen = null;
    this.listen(at("text-method"));
  }

  /** @param {HTMLElement} text */
  listen(text) {
    text.addEventListener("mouseover", (event) => {
      const span = stepSpan(event);
      this.light(span ? Number(span.dataset.step) : null, span);
    });
    text.addEventListener("mouseleave", () => this.light(null));
    text.addEventListener("click", (event) => {
      const span = stepSpan(event);
      if (span) this.look(Number(span.dataset.step));
    });
    this.slider.addEventListener("input", () => this.look(Number(this.slider.value) - 1));
  }

  /**
   * A new race: nothing can be opened until `open`.
   * @param {LaneView} view
   */
  close(view) {
    this.view = view;
    this.lit = null;
    this.chosen = null;
    this.ready = false;
    this.at("inside").hidden = true;
    this.at("tip").hidden = true;
  }

  /**
   * @param {Record<number, string>} words
   * @param {boolean} drawn drafts were tested by their chances
   */
  open(words, drawn) {
    const steps = this.view?.lane.steps ?? [];
    if (!steps.length) return;
    this.words = words;
    this.drawn = drawn;
    this.ready = true;
    this.at("inside").hidden = false;
    this.slider.max = String(steps.length);
    this.look(busiest(steps));
  }

  /**
   * @param {number | null} step
   * @param {HTMLElement | null} [span] what the pointer is on, where it is text
   */
  light(step, span = null) {
    if (step === this.lit || !this.view) return;
    this.view.mark(this.lit, "lit", false);
    this.lit = step;
    this.view.mark(step, "lit", true);
    this.frame();
    this.tip(step === null ? null : this.view.lane.steps[step], step ?? 0, span);
  }

  /** @param {number | null} step */
  look(step) {
    if (!this.ready || !this.view || step === null || !this.view.lane.steps[step]) return;
    this.view.mark(this.chosen, "chosen", false);
    this.chosen = step;
    this.view.mark(step, "chosen", true);
    this.slider.value = String(step + 1);
    this.slider.setAttribute("aria-valuetext", `step ${step + 1}`);
    this.panel.show(this.view.lane, step, this.words, this.drawn);
    this.frame();
  }

  frame() {
    this.charts.light(this.lit ?? this.chosen);
  }

  /**
   * @param {Step | null} facts
   * @param {number} step
   * @param {HTMLElement | null} span
   */
  tip(facts, step, span) {
    const tip = this.at("tip");
    tip.hidden = !facts;
    if (!facts) return;
    /** @param {string} source */
    const given = (source) => facts.sources.filter((each) => each === source).length;
    const looks = withOthers(this.looks, toldOf(facts));
    const used = looks.filter(({ source }) => given(source));
    const parts = used.map(({ source, name }) => `${name.toLowerCase()} ${given(source)}`);
    const head = `Step ${count(step + 1)}: ${plural(facts.sources.length, "token")}`;
    tip.replaceChildren(make("b", "", head), make("span", "", list(parts)));
    const also = alsoOffered(facts, looks);
    if (also) tip.append(make("span", "also", also));
    const box = span ? span.getClientRects()[0] : this.charts.band.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(innerWidth - tip.offsetWidth - 8, box.left))}px`;
    tip.style.top = `${Math.max(8, box.top - tip.offsetHeight - 6)}px`;
  }
}

/**
 * Who else offered the tokens of a step, in words; "" where each had one source.
 * @param {Step} step
 * @param {Look[]} looks
 */
function alsoOffered(step, looks) {
  const others = offersOf(step).flatMap(([, ...rest]) => rest);
  const parts = looks.flatMap(({ source, name }) => {
    const times = others.filter((each) => each === source).length;
    return times ? [`${name.toLowerCase()} ${count(times)}`] : [];
  });
  return parts.length ? `also offered by: ${list(parts)}` : "";
}

/**
 * The step that the pointer is on.
 * @param {Event} event
 */
function stepSpan({ target }) {
  const span = target instanceof Element ? target.closest(".step") : null;
  return span instanceof HTMLElement ? span : null;
}

/**
 * The step that gained most; of several, the one with the bigger tree.
 * @param {readonly Step[]} steps
 */
function busiest(steps) {
  /** @param {Step} step */
  const worth = ({ sources, tree }) => 1000 * sources.length + (tree ? tree.tokens.length - tree.pool.length : 0);
  return steps.reduce((best, step, i) => (worth(step) > worth(steps[best]) ? i : best), 0);
}
