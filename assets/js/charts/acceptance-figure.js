/** How many of each source's guesses were accepted over the last passes, as a plotly figure. Pure. */

import { plural } from "../common/format.js";
import { withOthers } from "../common/looks.js";
import { layoutOf, named, UNDER } from "./plotly.js";

/** @import { Step } from "../stream/messages.js" */
/** @import { Canvas, Figure } from "./plotly.js" */
/** @import { Colours } from "./race-figures.js" */

export const WINDOW = 32; // passes
const POINTS = 160; // of a line, at most: more cannot be told apart

/** @type {Record<"guessed" | "reached", number>} where a step tells how many guesses a share is of */
const PLACE = { reached: 1, guessed: 2 };

/**
 * A line for each source: accepted / guessed in the passes of the window, null where it guessed nothing.
 * @param {readonly Step[]} steps
 * @param {string[]} sources
 * @param {"guessed" | "reached"} of all guesses, or those whose parent was accepted
 */
export function shares(steps, sources, of) {
  const every = Math.max(1, Math.ceil(steps.length / POINTS));
  const sums = sources.map(() => [0, 0]);
  /** @type {(number | null)[][]} */
  const lines = sources.map(() => []);
  /** @type {number[]} */
  const x = [];
  for (const [at, step] of steps.entries()) {
    const gone = steps[at - WINDOW];
    for (const [i, source] of sources.entries()) {
      const add = step.judged?.[source];
      const drop = gone?.judged?.[source];
      sums[i][0] += (add?.[0] ?? 0) - (drop?.[0] ?? 0);
      sums[i][1] += (add?.[PLACE[of]] ?? 0) - (drop?.[PLACE[of]] ?? 0);
    }
    if ((at + 1) % every && at + 1 < steps.length) continue;
    x.push(at + 1);
    for (const [i, [accepted, offered]] of sums.entries()) lines[i].push(offered ? accepted / offered : null);
  }
  return { x, lines };
}

/**
 * What stands in the chart of an answer for which nothing was guessed.
 * @param {readonly Step[]} steps
 * @param {boolean} over
 */
function nothing(steps, over) {
  const offered = steps.reduce((sum, step) => sum + (step.offered ?? 0), 0);
  const text = offered ? `None of ${plural(offered, "offered token")} was tried` : "Nothing was offered";
  return `${text}${over ? "" : " so far"}`;
}

/**
 * @param {readonly Step[]} steps
 * @param {"guessed" | "reached"} of
 * @param {boolean} over
 * @param {Colours} colours
 * @param {Canvas} canvas
 * @returns {Figure}
 */
export function acceptanceFigure(steps, of, over, { looks, colourOf }, canvas) {
  const seen = new Set(steps.flatMap(({ judged }) => Object.keys(judged ?? {})));
  const used = withOthers(looks, seen).filter(({ source }) => seen.has(source));
  const { x, lines } = shares(
    steps,
    used.map(({ source }) => source),
    of,
  );
  const traces = used.map(({ source, dash }, i) => ({
    x,
    y: lines[i],
    mode: lines[i].filter((share) => share !== null).length > 1 ? "lines" : "markers", // one point makes no line
    hoverinfo: "skip",
    cliponaxis: false,
    marker: { size: 8 },
    line: {
      color: colourOf(source),
      width: 2,
      dash: dash === "none" ? "solid" : dash.replace(/ /g, "px,").concat("px"),
    },
  }));
  const layout = layoutOf(canvas, {
    xaxis: { range: [1, Math.max(over ? 8 : 24, steps.length)], nticks: 7, ...named("forward pass") },
    yaxis: { range: [0, 1.02], tickformat: ".0%", nticks: 6 },
    margin: UNDER,
    hovermode: false,
  });
  if (steps.length && !traces.length) {
    const middle = { xref: "paper", yref: "paper", x: 0.5, y: 0.5, showarrow: false };
    layout.annotations = [{ ...middle, text: nothing(steps, over), font: { color: canvas.ink.muted, size: 13 } }];
  }
  return { traces, layout };
}
