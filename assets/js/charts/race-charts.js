/** The three live charts of a race on the page. plotly itself is loaded with the first that is drawn, or ahead. */

import { make } from "../common/dom.js";
import { classOf } from "../stream/step-facts.js";
import { acceptanceFigure } from "./acceptance-figure.js";
import { CONFIG, inkOf, loadPlotly } from "./plotly.js";
import { barFrame, gainFigure, growthFigure } from "./race-figures.js";

/** @import { Look } from "../common/tab.js" */
/** @import { Canvas, Figure, Ink, Layout, PlotBox, Plotly } from "./plotly.js" */
/** @import { AxisName, Race } from "./race-figures.js" */

/** @typedef {(step: number | null, chosen: boolean) => void} OnStep the pointer is on a bar, or a bar was clicked */

export class RaceCharts {
  /**
   * @param {PlotBox} growth
   * @param {PlotBox} gain
   * @param {PlotBox} acceptance
   * @param {Look[]} looks
   * @param {OnStep} onStep
   */
  constructor(growth, gain, acceptance, looks, onStep) {
    this.growth = growth;
    this.gain = gain;
    this.acceptance = acceptance;
    /** @type {"guessed" | "reached"} which guesses the shares are of */
    this.of = "guessed";
    this.cost = 0; // ms that the last drawing took
    this.blank = ""; // how the method's charts look that stand empty until its lane begins
    this.looks = looks;
    this.onStep = onStep;
    /** @type {AxisName} */
    this.axis = "time";
    this.drawn = 0;
    /** @type {Layout | null} of the bars as they were drawn last */
    this.bars = null;
    this.band = make("div", "band");
    this.band.hidden = true;
  }

  /**
   * @param {Race} race
   * @param {(source: string) => boolean} shown whether a source's colour is on
   */
  async draw(race, shown) {
    const plotly = await loadPlotly();
    const ink = inkOf(this.growth);
    this.drawn += 1;
    const growth = growthFigure(race, this.axis, this.canvas(this.growth, ink));
    this.cost = 0;
    await this.react(plotly, this.growth, growth);
    if (!this.gain.clientWidth) return;
    const gained = this.canvas(this.gain, ink);
    const accepted = this.canvas(this.acceptance, ink);
    const writing = !race.over && !race.method.steps.length; // plain decoding: neither of the others gets a point
    const blank = writing ? JSON.stringify([gained, accepted].map(({ drawn: _, ...look }) => look)) : "";
    if (writing && blank === this.blank) return;
    this.blank = blank;
    const colours = { looks: this.looks, colourOf: this.colours(ink, shown) };
    const gain = gainFigure(race, colours, gained);
    await this.react(plotly, this.gain, gain);
    this.bars = gain.layout;
    this.listen();
    const { steps } = race.method;
    const acceptance = acceptanceFigure(steps, this.of, race.over, colours, accepted);
    await this.react(plotly, this.acceptance, acceptance);
  }

  /**
   * Draw one figure and let the page breathe: several short tasks rather than a long one.
   * @param {Plotly} plotly
   * @param {PlotBox} box
   * @param {Figure} figure
   */
  async react(plotly, box, { traces, layout }) {
    const begun = performance.now();
    await plotly.react(box, traces, layout, CONFIG);
    this.cost += performance.now() - begun;
    await new Promise((resolve) => setTimeout(resolve));
  }

  /**
   * @param {PlotBox} box
   * @param {Ink} ink
   * @returns {Canvas}
   */
  canvas({ clientWidth, clientHeight }, ink) {
    return { width: clientWidth, height: clientHeight, ink, drawn: this.drawn };
  }

  /**
   * @param {Ink} ink
   * @param {(source: string) => boolean} shown
   */
  colours(ink, shown) {
    /** @param {string} source */
    return (source) => {
      if (!shown(source)) return ink.grid;
      const probe = make("i", classOf(source));
      this.gain.append(probe);
      const colour = getComputedStyle(probe).getPropertyValue("--c").trim();
      probe.remove();
      return colour;
    };
  }

  listen() {
    if (this.band.parentNode === this.gain) return;
    this.gain.append(this.band);
    this.gain.on?.("plotly_hover", ({ points }) => this.onStep(points[0].pointNumber, false));
    this.gain.on?.("plotly_unhover", () => this.onStep(null, false));
    this.gain.on?.("plotly_click", ({ points }) => this.onStep(points[0].pointNumber, true));
  }

  /**
   * Frame the bar of one step; null takes the frame away.
   * @param {number | null} step
   */
  light(step) {
    this.band.hidden = step === null || !this.bars;
    if (step === null || !this.bars) return;
    const { left, top, width, height } = barFrame(this.bars, step);
    this.band.style.transform = `translate(${left}px, ${top}px)`;
    this.band.style.width = `${width}px`;
    this.band.style.height = `${height}px`;
  }
}
