/** The charts of Compare: bars of tokens a second, tokens over time or passes, one line a method, and the sweep. */

import { speed } from "../common/format.js";
import { PLAIN } from "../stream/lane.js";
import { CONFIG, inkOf, layoutOf, loadPlotly, ticksTo } from "./plotly.js";
import { sweepFigure } from "./sweep-figure.js";

/** @import { Lane } from "../stream/lane.js" */
/** @import { BriefStep, ComparedRow, Sweep } from "../stream/messages.js" */
/** @import { AxisName } from "./race-figures.js" */
/** @import { Canvas, Figure, Ink, PlotBox, Plotly } from "./plotly.js" */

const DASHES = ["solid", "8px,3px", "2px,3px", "10px,3px,2px,3px", "14px,4px"];
const NARROW = 420; // px; below, everything is a little smaller
const LETTER = 6.6; // px of a name, a letter of it
const MARK = 44; // px before a name, its line included
const ROW = 19; // px of a row of names
const NAMES = 0.45; // of the width of the bars' chart, that names take
const BAR = 26; // px of a bar with the room around it
const LINE = 14; // px of a line of a name
const BREAK = "<br>"; // as plotly reads it
const OPEN = 0.4; // opacity of the bar of an answer that has not ended
const SIDES = { l: 38, r: 14, t: 18, b: 26 };

/** @typedef {Record<string, Lane<BriefStep>>} Lanes */

export class CompareCharts {
  /**
   * @param {PlotBox} bars
   * @param {PlotBox} lines
   * @param {PlotBox} sweep
   */
  constructor(bars, lines, sweep) {
    this.bars = bars;
    this.lines = lines;
    this.sweep = sweep;
    /** @type {AxisName} */
    this.axis = "time";
    this.drawn = 0;
  }

  /**
   * @param {ComparedRow[]} rows one for every method, whether it has begun or not
   * @param {Lanes} lanes
   * @param {Sweep | null} sweep
   */
  async draw(rows, lanes, sweep) {
    const plotly = await loadPlotly();
    const ink = inkOf(this.bars);
    const narrow = this.bars.clientWidth < NARROW;
    const beside = wrapped(rows, NAMES * this.bars.clientWidth);
    const below = wrapped(rows, this.lines.clientWidth - SIDES.l - SIDES.r - MARK);
    const bar = Math.max(BAR, LINE * (1 + mostLines(beside)));
    const tall = Math.max(236, 60 + BAR * rows.length) + key(below, this.lines.clientWidth).height;
    const high = Math.max(236, 60 + bar * rows.length);
    this.bars.style.height = `${narrow ? high : Math.max(high, tall)}px`;
    this.lines.style.height = `${narrow ? tall : Math.max(high, tall)}px`;
    const begun = (/** @type {ComparedRow} */ row) => row.passes;
    const [barred, shown] = [beside, below].map((named) => named.filter(begun));
    const names = key(shown, this.lines.clientWidth);
    this.drawn += 1;
    const bars = barsFigure(barred, narrow, this.canvas(this.bars, ink));
    await plotly.react(this.bars, bars.traces, bars.layout, CONFIG);
    await new Promise((resolve) => setTimeout(resolve)); // two short tasks rather than a long one
    const lines = linesFigure(shown, lanes, this.axis, names, this.canvas(this.lines, ink));
    await plotly.react(this.lines, lines.traces, lines.layout, CONFIG);
    if (!sweep || !this.sweep.clientWidth) return;
    await new Promise((resolve) => setTimeout(resolve));
    const swept = sweepFigure(shown, sweep, this.canvas(this.sweep, ink));
    await plotly.react(this.sweep, swept.traces, swept.layout, CONFIG);
  }

  /**
   * @param {PlotBox} box
   * @param {Ink} ink
   * @returns {Canvas}
   */
  canvas(box, ink) {
    return { width: box.clientWidth, height: box.clientHeight, ink, drawn: this.drawn };
  }

  /** The charts under each other, as one PNG. */
  async picture() {
    const plotly = await loadPlotly();
    const boxes = [this.bars, this.lines, this.sweep].filter((box) => box.clientWidth > 0);
    const parts = await Promise.all(boxes.map((box) => imageOf(plotly, box)));
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(...parts.map((part) => part.width));
    canvas.height = parts.reduce((sum, part) => sum + part.height, 0);
    const pen = canvas.getContext("2d");
    if (!pen) throw new Error("this browser draws no pictures");
    pen.fillStyle = inkOf(this.bars).paper;
    pen.fillRect(0, 0, canvas.width, canvas.height);
    let top = 0;
    for (const part of parts) {
      pen.drawImage(part, 0, top);
      top += part.height;
    }
    return blobOf(canvas);
  }
}

/**
 * @param {Plotly} plotly
 * @param {PlotBox} box
 */
async function imageOf(plotly, box) {
  const image = new Image();
  image.src = await plotly.toImage(box, {
    format: "png",
    scale: 2,
    width: box.clientWidth,
    height: box.clientHeight,
  });
  await image.decode();
  return image;
}

/**
 * @param {HTMLCanvasElement} canvas
 * @returns {Promise<Blob>}
 */
function blobOf(canvas) {
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("no picture could be made"))), "image/png");
  });
}

/**
 * The rows with names over as many lines as fit a width in px. A number stays with what it is a number of.
 * @param {ComparedRow[]} rows
 * @param {number} width
 */
export function wrapped(rows, width) {
  return rows.map((row) => ({ ...row, name: linesOf(row.name.split(/ (?![\d.])/), width / LETTER).join(BREAK) }));
}

/**
 * @param {string[]} words
 * @param {number} letters of a line
 */
function linesOf(words, letters) {
  /** @type {string[]} */
  const lines = [];
  for (const word of words) {
    const last = lines.length - 1;
    if (last >= 0 && lines[last].length + 1 + word.length <= letters) lines[last] += ` ${word}`;
    else lines.push(word);
  }
  return lines;
}

/** @param {ComparedRow[]} rows */
const mostLines = (rows) => Math.max(1, ...rows.map(({ name }) => name.split(BREAK).length));

/**
 * What stands at the end of a row's bar.
 * @param {ComparedRow} row
 */
const figureOf = ({ rate, open }) => (open ? `${speed(rate)} so far` : speed(rate));

/**
 * In px.
 * @param {ComparedRow} row
 */
const widthOf = (row) => LETTER * figureOf(row).length;

/**
 * Behind the longest bar there is room for its figure where that is long.
 * @param {ComparedRow[]} rows
 * @param {boolean} narrow
 * @param {Canvas} canvas
 * @returns {Figure}
 */
export function barsFigure(rows, narrow, canvas) {
  const { ink, muted, paper } = canvas.ink;
  const plain = rows.find((row) => row.method === PLAIN)?.rate ?? 0;
  const trace = {
    type: "bar",
    orientation: "h",
    x: rows.map((row) => row.rate),
    y: rows.map((row) => row.name),
    hoverinfo: "none",
    marker: {
      color: rows.map((row) => (row.method === PLAIN ? muted : ink)),
      opacity: rows.map((row) => (row.open ? OPEN : 1)),
    },
  };
  const place = { xanchor: "left", xshift: 2, showarrow: false };
  const figure = { ...place, bgcolor: paper, borderpad: 1, font: { color: ink, size: 12 } };
  const line = { type: "line", x0: plain, x1: plain, y0: 0, y1: 1, yref: "paper" };
  const top = Math.max(1, ...rows.map((row) => row.rate));
  const layout = layoutOf(canvas, {
    xaxis: { visible: rows.length > 0, range: [0, top * 1.12], nticks: 6, showgrid: true },
    yaxis: {
      visible: rows.length > 0,
      autorange: "reversed",
      showgrid: false,
      tickfont: { size: narrow ? 10.5 : 12, color: ink },
      automargin: true,
    },
    bargap: 0.35,
    margin: { ...SIDES, r: Math.max(SIDES.r, ...rows.filter((row) => row.open).map(widthOf)) },
    // on the paper's colour, over the line of plain decoding
    annotations: rows.map((row) => ({ ...figure, x: row.rate, y: row.name, text: figureOf(row) })),
    shapes: plain ? [{ ...line, line: { color: muted, width: 1, dash: "3px,3px" } }] : [],
  });
  return { traces: [trace], layout };
}

/**
 * Room for the names under the lines, in px: no line ends there.
 * @typedef {{ entry: number, height: number }} Key
 */

/**
 * @param {ComparedRow[]} rows
 * @param {number} width of the chart
 * @returns {Key}
 */
function key(rows, width) {
  const entry = Math.max(0, ...rows.flatMap(({ name }) => name.split(BREAK)).map((line) => LETTER * line.length));
  const columns = Math.max(1, Math.floor((width - SIDES.l - SIDES.r) / (entry + MARK)));
  let height = 8;
  for (let i = 0; i < rows.length; i += columns) height += ROW + LINE * (mostLines(rows.slice(i, i + columns)) - 1);
  return { entry, height };
}

/**
 * @param {ComparedRow[]} rows
 * @param {Lanes} lanes
 * @param {AxisName} axis
 * @param {Key} names
 * @param {Canvas} canvas
 * @returns {Figure}
 */
export function linesFigure(rows, lanes, axis, names, canvas) {
  const passes = axis === "passes";
  const { ink, series } = canvas.ink;
  const shown = rows.map(({ lane }) => lanes[lane]);
  const longest = Math.max(0, ...shown.map(({ steps }) => steps.length));
  const most = Math.max(0, ...shown.map(({ tokens }) => tokens));
  const traces = rows.map((row, i) => ({
    x: passes ? lanes[row.lane].totals.map((_, step) => step) : lanes[row.lane].ends,
    y: lanes[row.lane].totals,
    mode: "lines",
    hoverinfo: "name",
    name: row.name,
    line: { color: series[i % series.length], dash: DASHES[i % DASHES.length], width: 2 },
  }));
  const place = { orientation: "h", x: 0, xanchor: "left", yref: "container", y: 0, yanchor: "bottom" };
  const layout = layoutOf(canvas, {
    xaxis: {
      visible: rows.length > 0,
      ticksuffix: passes ? "" : " s",
      ...(passes ? ticksTo(longest, 6) : { nticks: 6 }),
      rangemode: "tozero",
      showgrid: false,
    },
    yaxis: { visible: rows.length > 0, ...ticksTo(most, 6), rangemode: "tozero" },
    showlegend: true,
    legend: { ...place, entrywidth: names.entry, bgcolor: "transparent", font: { size: 11.5, color: ink } },
    margin: { ...SIDES, b: SIDES.b + names.height },
  });
  return { traces, layout };
}
