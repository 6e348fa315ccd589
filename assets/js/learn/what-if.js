/** What would be gained with another acceptance, draft length or device: sliders, a curve, the race as a point. */

import { CONFIG, drawnIn, inkOf, layoutOf, loadPlotly } from "../charts/plotly.js";
import { make } from "../common/dom.js";
import { percent, plural, prose, ratio } from "../common/format.js";

/** @import { Canvas, Figure } from "../charts/plotly.js" */
/** @import { Turn } from "../stream/reducer.js" */

export const LONGEST = 32; // guesses of a chain

/** @typedef {[number, number][]} Cost rows of tokens and seconds of a forward pass over them */

/** @typedef {{ guesses: number, speedup: number }} Point of a race: guesses a pass, on average */

/**
 * Seconds of a forward pass, between two that were measured on a line; beyond the last one by its slope, as the budget
 * reckons: a wider pass there takes no less.
 * @param {Cost} cost
 * @param {number} tokens
 */
export function secondsOver(cost, tokens) {
  const found = cost.findIndex(([n]) => n >= tokens);
  const next = found < 0 ? cost.length - 1 : found;
  if (next < 1) return cost[0][1];
  const [n0, t0] = cost[next - 1];
  const [n1, t1] = cost[next];
  const risen = ((t1 - t0) * (tokens - n0)) / (n1 - n0);
  return found < 0 ? Math.max(t1, t0 + risen) : t0 + risen;
}

/**
 * How many times faster than plain decoding a chain of guesses is: tokens a pass, (1 - a^(K+1)) / (1 - a), against the
 * time of a pass over 1 + K tokens in plain passes.
 * @param {Cost} cost
 * @param {number} acceptance chance of a guess whose parent was accepted
 * @param {number} guesses K
 * @param {number} slope 1: wide passes cost what they cost here; 0: nothing more than narrow ones
 */
export function speedupOf(cost, acceptance, guesses, slope) {
  let tokens = 0;
  for (let depth = 0; depth <= guesses; depth++) tokens += acceptance ** depth;
  const dearer = Math.max(0, secondsOver(cost, 1 + guesses) / secondsOver(cost, 1) - 1); // less is noise
  return tokens / (1 + slope * dearer);
}

/**
 * Speedups of 0 to LONGEST guesses, the best of them, and the first length after it that does not pay any more.
 * @param {Cost} cost
 * @param {number} acceptance
 * @param {number} slope
 */
export function curveOf(cost, acceptance, slope) {
  const curve = Array.from({ length: LONGEST + 1 }, (_, guesses) => speedupOf(cost, acceptance, guesses, slope));
  const best = curve.indexOf(Math.max(...curve));
  const ends = curve.findIndex((speedup, guesses) => guesses > best && speedup < 1);
  return { curve, best, ends: ends < 0 ? null : ends };
}

/**
 * A race as a point, and how often the first guess of a pass held.
 * @param {Turn | null} race one that is over
 */
export function placeOf(race) {
  const figures = race?.end?.figures;
  const steps = race?.lanes.method.steps ?? [];
  const tried = steps.filter(({ tree }) => tree && tree.tokens.length > 1 + tree.pool.length);
  if (!figures || !("level" in figures) || figures.speedup === null || !tried.length) return null;
  const guesses = steps.reduce((sum, { tree }) => sum + (tree ? tree.tokens.length - 1 - tree.pool.length : 0), 0);
  const held = tried.filter(({ path }) => path?.length).length;
  return { guesses: guesses / steps.length, speedup: figures.speedup, acceptance: held / tried.length };
}

export class WhatIf {
  /** @param {Cost} cost */
  constructor(cost) {
    this.cost = cost;
    /** @type {ReturnType<typeof placeOf>} */
    this.place = null;
    this.drawn = 0;
    this.box = make("section", "card what-if");
    this.plot = make("div", "plot");
    this.outcome = make("p", "verdict");
    this.outcome.setAttribute("role", "status");
    const text = prose`One chain of guesses: how often the model accepts each, how long the chain is, and what a wide
      pass costs. The curve is what follows from these three.`;
    const start = prose`The sliders begin with the race: how often a pass had its next token among its guesses, and how
      many guesses it had.`;
    const ring = prose`The ring is the race. It lies above the curve where trees and a budget that drops unlikely
      guesses do better than one chain; below it where guesses stand side by side or are less often right further on,
      and by what the curve leaves out: pool rows, reading the prompt, making the guesses.`;
    this.start = make("span", "", ` ${start}`);
    this.ring = make("span", "", ` ${ring}`);
    const lead = make("p", "", text);
    lead.append(this.start, this.ring);
    this.acceptance = slider("Guesses accepted", { max: 1, step: 0.01, first: 0.6 }, percent, () => this.draw());
    this.guesses = slider("Guesses a pass", { max: LONGEST, step: 1, first: 5 }, String, () => this.draw());
    this.slope = slider("Cost of a wide pass", { max: 2, step: 0.05, first: 1 }, costWord, () => this.draw());
    const sliders = make("div", "sliders");
    sliders.append(this.acceptance.box, this.guesses.box, this.slope.box);
    this.box.append(make("h2", "", "What if?"), lead, sliders, this.plot, this.outcome);
    new MutationObserver(() => this.draw()).observe(document.body, { attributeFilter: ["class"] });
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  /**
   * @param {Turn | null} race
   * @param {boolean} here whether it ran at the cost of the curve: else it is no point of this chart
   */
  show(race, here) {
    const found = placeOf(race);
    this.place = here ? found : null;
    this.start.hidden = !found;
    this.ring.hidden = !this.place;
    if (found) {
      this.acceptance.set(found.acceptance);
      this.guesses.set(Math.min(LONGEST, Math.round(found.guesses)));
    }
    this.draw();
  }

  async draw() {
    const [acceptance, guesses, slope] = [this.acceptance, this.guesses, this.slope].map((each) => each.value);
    const found = curveOf(this.cost, acceptance, slope);
    this.outcome.textContent = verdict(found, guesses);
    if (!this.plot.clientWidth) return;
    await drawnIn(this.plot, async () => {
      const plotly = await loadPlotly();
      this.drawn += 1;
      const canvas = { width: this.plot.clientWidth, height: 260, ink: inkOf(this.plot), drawn: this.drawn };
      const { traces, layout } = figureOf(found, guesses, this.place, canvas);
      await plotly.react(this.plot, traces, layout, CONFIG);
    });
  }
}

/** @param {number} slope */
function costWord(slope) {
  if (slope === 1) return "as measured here";
  return slope === 0 ? "none: a GPU that has arithmetic to spare" : `${ratio(slope)} × what it is here`;
}

/**
 * @param {ReturnType<typeof curveOf>} found
 * @param {number} guesses
 */
export function verdict({ curve, best, ends }, guesses) {
  const now = `${plural(guesses, "guess", "guesses")} a pass: ${ratio(curve[guesses])} times plain decoding.`;
  if (best === 0) return `${now} It does not pay: with these no chain of guesses is faster than none.`;
  const stop =
    ends === null
      ? `It pays up to ${LONGEST}, as far as the curve goes.`
      : `It stops paying at ${plural(ends, "guess", "guesses")}.`;
  return `${now} Best at ${best}: ${ratio(curve[best])} times. ${stop}`;
}

/**
 * @param {string} label
 * @param {{ max: number, step: number, first: number }} range from 0 on
 * @param {(value: number) => string} word
 * @param {() => void} changed
 */
function slider(label, { max, step, first }, word, changed) {
  const box = make("label");
  const shown = make("b");
  const input = make("input");
  Object.assign(input, { type: "range", min: 0, max, step, value: first });
  const tell = () => {
    shown.textContent = word(Number(input.value));
  };
  input.addEventListener("input", () => {
    tell();
    changed();
  });
  tell();
  const head = make("span", "", label);
  head.append(" ", shown);
  box.append(head, input);
  return {
    box,
    get value() {
      return Number(input.value);
    },
    /** @param {number} value */
    set(value) {
      input.value = String(value);
      tell();
    },
  };
}

/**
 * @param {ReturnType<typeof curveOf>} found
 * @param {number} guesses
 * @param {Point | null} race
 * @param {Canvas} canvas
 * @returns {Figure}
 */
export function figureOf({ curve, best, ends }, guesses, race, canvas) {
  const { ink, muted, good } = canvas.ink;
  const x = curve.map((_, at) => at);
  const dot = { mode: "markers", hoverinfo: "skip" };
  const traces = [
    { x, y: curve, mode: "lines", hoverinfo: "skip", line: { color: ink, width: 2.2 } },
    { ...dot, x: [guesses], y: [curve[guesses]], marker: { color: ink, size: 10 } },
    { ...dot, x: [best], y: [curve[best]], marker: { color: good, size: 9, symbol: "diamond" } },
  ];
  if (race) {
    const ring = { color: "rgba(0,0,0,0)", size: 13, line: { color: good, width: 2.5 } };
    traces.push({ ...dot, x: [race.guesses], y: [race.speedup], marker: ring });
  }
  const top = 1.15 * Math.max(1.2, ...curve, race?.speedup ?? 0);
  const level = {
    type: "line",
    xref: "paper",
    x0: 0,
    x1: 1,
    y0: 1,
    y1: 1,
    line: { color: muted, width: 1, dash: "3px,3px" },
  };
  const stop = {
    type: "line",
    x0: ends ?? 0,
    x1: ends ?? 0,
    y0: 0,
    y1: 1,
    line: { color: muted, width: 1, dash: "2px,3px" },
  };
  const layout = layoutOf(canvas, {
    xaxis: {
      range: [-0.5, Math.max(LONGEST, race?.guesses ?? 0) + 0.5],
      nticks: 9,
      title: { text: "guesses a pass", font: { size: 12 }, standoff: 4 },
    },
    yaxis: { range: [0, top], nticks: 6, ticksuffix: "×" },
    margin: { l: 44, r: 14, t: 12, b: 42 },
    hovermode: false,
    shapes: ends === null ? [level] : [level, stop],
  });
  return { traces, layout };
}
