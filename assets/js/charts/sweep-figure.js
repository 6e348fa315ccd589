/** One setting varied: tokens a pass and tokens a second over its values, as a plotly figure. Pure. */

import { ratio } from "../common/format.js";
import { PLAIN } from "../stream/lane.js";
import { layoutOf, named, UNDER } from "./plotly.js";

/** @import { ComparedRow, Sweep } from "../stream/messages.js" */
/** @import { Canvas, Figure } from "./plotly.js" */

const HEADROOM = 1.15; // for the figure above the highest point
const NEAR = 0.2; // of the height of the chart, that a figure above its point takes
const ROUND = [1, 2, 2.5, 5, 10];

/**
 * @param {ComparedRow[]} rows those that have begun
 * @param {Sweep} sweep
 * @param {Canvas} canvas
 * @returns {Figure}
 */
export function sweepFigure(rows, { letter, values }, canvas) {
  const { ink, good, muted } = canvas.ink;
  const swept = rows.filter(({ lane }) => lane in values).sort((a, b) => values[a.lane] - values[b.lane]);
  const x = swept.map(({ lane }) => String(values[lane]));
  const plain = rows.find(({ method }) => method === PLAIN)?.rate ?? 0;
  const most = [Math.max(1, ...swept.map((row) => row.tau)), Math.max(1, plain, ...swept.map((row) => row.rate))];
  const [left, right] = axesOf(most.map((value) => HEADROOM * value));
  const common = { x, mode: "lines+markers", hoverinfo: "none" };
  const tau = {
    ...common,
    y: swept.map((row) => row.tau),
    mode: "lines+markers+text",
    text: swept.map((row) => ratio(row.tau)),
    textposition: swept
      .map((row) => (isUnder(row.tau / left.range[1], row.rate / right.range[1]) ? "bottom" : "top"))
      .map((side) => `${side} center`),
    textfont: { color: ink, size: 11.5 },
    cliponaxis: false,
    line: { color: ink, width: 2.2 },
    marker: { color: ink, size: 7 },
  };
  const rate = {
    ...common,
    y: swept.map((row) => row.rate),
    yaxis: "y2",
    line: { color: good, width: 2, dash: "7px,4px" },
    marker: { color: good, size: 7, symbol: "square" },
  };
  const line = { type: "line", xref: "paper", x0: 0, x1: 1, yref: "y2", y0: plain, y1: plain };
  const layout = layoutOf(canvas, {
    xaxis: { type: "category", ...named(letter) },
    yaxis: { ...left, tickfont: { color: ink } },
    yaxis2: {
      overlaying: "y",
      side: "right",
      ...right,
      showgrid: false,
      zeroline: false,
      fixedrange: true,
      tickfont: { color: good, size: 11.5 },
    },
    margin: { ...UNDER, r: 40 },
    shapes: plain ? [{ ...line, line: { color: muted, width: 1, dash: "2px,3px" } }] : [],
  });
  return { traces: [tau, rate], layout };
}

/**
 * Whether a point of the other line is where this one's figure would stand, right above it.
 * @param {number} height of the chart, from 0 to 1
 * @param {number} other
 */
const isUnder = (height, other) => other >= height && other - height < NEAR;

/**
 * Axes from 0 with round ticks at the same heights: as many steps for each as waste the least room.
 * @param {number[]} most the highest value on each
 * @returns {{ range: [number, number], tickmode: string, tick0: number, dtick: number }[]}
 */
export function axesOf(most) {
  const choices = [4, 5, 6].map((steps) => most.map((value) => ({ steps, value, dtick: roundStep(value / steps) })));
  const [best] = choices.sort((a, b) => waste(a) - waste(b));
  return best.map(({ steps, dtick }) => ({ range: [0, steps * dtick], tickmode: "linear", tick0: 0, dtick }));
}

/** @param {{ steps: number, value: number, dtick: number }[]} axes */
const waste = (axes) => axes.reduce((product, { steps, value, dtick }) => (product * steps * dtick) / value, 1);

/** @param {number} least */
function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * (ROUND.find((step) => step * power >= least) ?? 10);
}
