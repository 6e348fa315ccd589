/** The two charts of a race as plotly figures, from the lanes' own numbers. Pure. */

import { plural, seconds } from "../common/format.js";
import { withOthers } from "../common/looks.js";
import { passesTo } from "../stream/lane.js";
import { layoutOf, named, ticksTo, UNDER } from "./plotly.js";

/** @import { Look } from "../common/tab.js" */
/** @import { Lane } from "../stream/lane.js" */
/** @import { Level } from "../stream/messages.js" */
/** @import { Canvas, Figure, Ink, Layout, Trace } from "./plotly.js" */

const MEAN_OF = 12;
const HATCHED = 120; // bars of more steps are too narrow to show it
const LABELLED = 8; // tokens from which on a line has room for its name while it grows
const LETTER = 7; // px of a name, a letter of it
const BOLD = 8.5; // px of a bold capital
const ROOM = 1.4; // of a short race's length is the axis: its lines are steep, and their names stand beside them
const ASIDE = 8; // px between a line and its name
const HIGH = 16; // px of a name
/** Places on a line for its name, the middle first. */
const PLACES = [0.55, 0.5, 0.6, 0.45, 0.65, 0.4, 0.7, 0.35, 0.75, 0.3, 0.8, 0.25, 0.85, 0.2, 0.9, 0.15, 0.95, 0.1, 1];
const SPACE = 0.6; // of a pass, on either side of the bars

/** @typedef {"time" | "passes"} AxisName */

/**
 * What a race's charts show. level: where both answers are equally long, once the race is over.
 * @typedef {object} Race
 * @property {Lane} plain
 * @property {Lane} method
 * @property {number} cap
 * @property {boolean} over
 * @property {Level | null} level
 * @property {string} name of the method
 */

/** @typedef {{ lane: Lane, x: readonly number[], name: string, bold: boolean, colour: string }} Line */

/**
 * A stretch of the figure, in px.
 * @typedef {{ left: number, right: number, top: number, bottom: number }} Box
 */

/** @typedef {[number, number][]} Way a line's points: px from the left and from the top */

/** @typedef {"left" | "right"} Side the side of a name that is at its line: it is under the line then, else above it */

/**
 * Tokens over time or forward passes, one line a lane.
 * @param {Race} race
 * @param {AxisName} axis
 * @param {Canvas} canvas
 * @returns {Figure}
 */
export function growthFigure(race, axis, canvas) {
  const { plain, method, cap, over } = race;
  const { ink } = canvas;
  const passes = axis === "passes";
  /** @param {Lane} lane */
  const xs = (lane) => (passes ? lane.totals.map((_, i) => i) : lane.ends);
  const slow = { lane: plain, x: xs(plain), name: "Plain", bold: false, colour: ink.muted };
  const fast = { lane: method, x: xs(method), name: race.name, bold: true, colour: ink.ink };
  const traces = [lineOf(slow, 2, "5px,4px"), lineOf(fast, 2.4, "solid")];
  const [above, below] = perToken(fast) > perToken(slow) ? [slow, fast] : [fast, slow];
  const most = Math.max(plain.tokens, method.tokens);
  const top = over ? most : Math.max(cap, most);
  const guess = passes ? cap : (plain.seconds * cap) / Math.max(plain.tokens, 1);
  const far = over || method.tokens ? Math.max(slow.x[slow.x.length - 1], fast.x[fast.x.length - 1]) : guess;
  const room = over && most <= LABELLED ? ROOM : 1.02;
  const layout = layoutOf(canvas, {
    xaxis: {
      range: [0, (far || 1) * room],
      ticksuffix: passes ? "" : " s",
      ...(passes ? ticksTo(far, 7) : { nticks: 7 }),
    },
    yaxis: { range: [0, top * 1.1], ...ticksTo(top, 6) },
    hovermode: false,
  });
  const saved = savedBetween(race, passes, layout, ink);
  const first = nameOf(below, "left", { other: above, taken: saved ? [saved.box] : [] }, layout, over);
  const taken = [saved, first].flatMap((each) => (each ? [each.box] : []));
  const second = nameOf(above, "right", { other: below, taken }, layout, over);
  if (saved) traces.push(saved.trace);
  layout.annotations = [first, second, saved].flatMap((each) => (each ? [each.note] : []));
  return { traces, layout };
}

/**
 * @param {Line} line
 * @param {number} width
 * @param {string} dash
 * @returns {Trace}
 */
function lineOf({ lane, x, colour }, width, dash) {
  return { x, y: lane.totals, mode: "lines", line: { color: colour, width, dash }, hoverinfo: "skip" };
}

/**
 * Seconds or passes a token: the line of less is the upper one.
 * @param {Line} line
 */
function perToken({ lane, x }) {
  return (x[x.length - 1] ?? 0) / Math.max(lane.tokens, 1);
}

/**
 * A line's name, written beside it where there is room that the other line and what is written already leave; a short
 * line has none while it grows, nor where there is no such room.
 * @param {Line} line
 * @param {Side} usual
 * @param {{ other: Line, taken: Box[] }} beside
 * @param {Layout} layout
 * @param {boolean} over
 */
function nameOf(line, usual, { other, taken }, layout, over) {
  const { lane, x, name, bold, colour } = line;
  const short = lane.tokens <= LABELLED;
  if (!lane.tokens || (short && !over)) return null;
  const last = x.length - 1;
  const points = PLACES.map((part) => (short ? part * last : Math.round(part * last)));
  const way = wayOf(other, layout);
  /** @type {Side[]} */
  const sides = usual === "left" ? ["left", "right"] : ["right", "left"];
  const places = sides
    .flatMap((side) => points.map((at) => ({ at, side, box: boxOf(line, at, side, layout) })))
    .filter(({ box: { left, right, bottom } }) => {
      const { margin, width, height } = layout; // in the margins stand the figures of the axes
      return left >= margin.l && right <= width && bottom <= height - margin.b;
    });
  const clear = places.filter(({ box }) => !taken.some((each) => overlap(each, box)));
  const free = clear.find(({ box }) => !crosses(way, box));
  const found = short ? free : (free ?? clear.find((place) => place.side === usual) ?? clear[0]);
  if (!found) return null;
  const { at, side, box } = found;
  const left = side === "left";
  const place = { xanchor: side, xshift: left ? ASIDE : -ASIDE, yanchor: left ? "top" : "bottom" };
  const note = textAt(along(x, at), along(lane.totals, at), bold ? `<b>${name}</b>` : name, colour, place);
  return { note, box };
}

/**
 * @param {Box} a
 * @param {Box} b
 */
const overlap = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

/**
 * The value at a place between two points.
 * @param {readonly number[]} values
 * @param {number} at
 */
function along(values, at) {
  const before = values[Math.floor(at)];
  return before + (values[Math.ceil(at)] - before) * (at % 1);
}

/**
 * Where the name of a line is written that stands at one of its points.
 * @param {Line} line
 * @param {number} at
 * @param {Side} side
 * @param {Layout} layout
 * @returns {Box}
 */
function boxOf({ lane, x, name, bold }, at, side, layout) {
  const [across, down] = [pixel(layout, along(x, at)), pixelDown(layout, along(lane.totals, at))];
  const wide = (bold ? BOLD : LETTER) * name.length;
  return side === "left"
    ? { left: across + ASIDE, right: across + ASIDE + wide, top: down, bottom: down + HIGH }
    : { left: across - ASIDE - wide, right: across - ASIDE, top: down - HIGH, bottom: down };
}

/**
 * The points of a line, in px of the figure.
 * @param {Line} line
 * @param {Layout} layout
 * @returns {Way}
 */
function wayOf({ lane, x }, layout) {
  return x.map((each, i) => [pixel(layout, each), pixelDown(layout, lane.totals[i])]);
}

/**
 * Whether a line, which never falls, goes through a box.
 * @param {Way} way
 * @param {Box} box
 */
function crosses(way, { left, right, top, bottom }) {
  if (!way.length || way[0][0] > right || way[way.length - 1][0] < left) return false;
  return downAt(way, left) >= top && downAt(way, right) <= bottom;
}

/**
 * How far down a line is at a place, or at its nearer end.
 * @param {Way} way
 * @param {number} across
 */
function downAt(way, across) {
  const next = way.findIndex(([each]) => each >= across);
  if (next <= 0) return way[next < 0 ? way.length - 1 : 0][1];
  const [[from, before], [to, after]] = way.slice(next - 1, next + 1);
  return before + ((across - from) / (to - from)) * (after - before);
}

/**
 * Where a value of the horizontal axis is drawn, in px of the figure.
 * @param {Layout} layout
 * @param {number} x
 */
function pixel({ width, margin, xaxis }, x) {
  const [low, high] = xaxis.range ?? [0, 1];
  return margin.l + ((x - low) / (high - low)) * (width - margin.l - margin.r);
}

/**
 * Where a value of the vertical axis is drawn, in px from the top of the figure.
 * @param {Layout} layout
 * @param {number} y
 */
function pixelDown({ height, margin, yaxis }, y) {
  const [low, high] = yaxis.range ?? [0, 1];
  return height - margin.b - ((y - low) / (high - low)) * (height - margin.t - margin.b);
}

/**
 * @param {number} x
 * @param {number} y
 * @param {string} text
 * @param {string} colour
 * @param {object} place
 */
function textAt(x, y, text, colour, place) {
  return { x, y, text, showarrow: false, font: { color: colour, size: 12 }, ...place };
}

/**
 * The stretch between both lines at the same number of tokens. What it says ends where the stretch does; an answer
 * that was stopped early leaves no room for it there, so that it begins there.
 * @param {Race} race
 * @param {boolean} passes
 * @param {Layout} layout
 * @param {Ink} ink
 */
function savedBetween({ method, over, level }, passes, layout, { good }) {
  if (!over || !level) return null;
  const { tokens } = level;
  const from = passes ? passesTo(method, tokens) : level.method;
  const to = passes ? tokens : level.plain;
  if (to <= from) return null;
  const text = passes ? `${plural(to - from, "pass", "passes")} saved` : `${seconds(to - from)} saved`;
  const wide = LETTER * text.length;
  const fits = pixel(layout, to) - layout.margin.l >= wide;
  const right = pixel(layout, to) + (fits ? 0 : wide);
  const bottom = pixelDown(layout, tokens) - 2;
  return {
    box: { left: right - wide, right, top: bottom - HIGH, bottom },
    trace: { x: [from, to], y: [tokens, tokens], mode: "lines", line: { color: good, width: 3 }, hoverinfo: "skip" },
    note: textAt(to, tokens, `<b>${text}</b>`, good, {
      xanchor: fits ? "right" : "left",
      yanchor: "bottom",
      yshift: 2,
    }),
  };
}

/**
 * @typedef {object} Colours
 * @property {Look[]} looks in the order of the stack
 * @property {(source: string) => string} colourOf
 */

/**
 * Tokens of each step, stacked by source, and their rolling mean.
 * @param {Race} race
 * @param {Colours} colours
 * @param {Canvas} canvas
 * @returns {Figure}
 */
export function gainFigure({ method, over }, { looks, colourOf }, canvas) {
  const { steps } = method;
  const { ink, paper } = canvas.ink;
  const x = steps.map((_, i) => i + 1);
  const gained = steps.map(({ sources }) => sources.length);
  const given = new Set(steps.flatMap(({ sources }) => sources));
  const used = withOthers(looks, given).filter(({ source }) => given.has(source));
  const hatched = steps.length <= HATCHED;
  /** @type {Trace[]} */
  const traces = used.map(({ source, hatch }) => ({
    type: "bar",
    x,
    y: steps.map(({ sources }) => sources.filter((each) => each === source).length),
    marker: {
      color: colourOf(source),
      line: { width: 0 },
      pattern: { shape: hatched ? hatch : "", fillmode: "overlay", fgcolor: paper, size: 5, solidity: 0.25 },
    },
    hoverinfo: "none",
  }));
  traces.push({ x, y: rolling(gained), mode: "lines", hoverinfo: "skip", line: { color: ink, width: 1.8 } });
  const top = Math.max(4, ...gained);
  const layout = layoutOf(canvas, {
    xaxis: { range: [1 - SPACE, Math.max(over ? 8 : 24, steps.length) + SPACE], nticks: 7, ...named("forward pass") },
    yaxis: { range: [0, top + 0.4], dtick: tickOf(top) },
    margin: UNDER,
    barmode: "stack",
    bargap: steps.length > 200 ? 0 : 0.22,
    hovermode: "x",
  });
  return { traces, layout };
}

/** @param {number} top */
function tickOf(top) {
  if (top > 12) return 4;
  return top > 6 ? 2 : 1;
}

/** @param {number[]} values */
function rolling(values) {
  let sum = 0;
  return values.map((value, i) => {
    sum += value - (i >= MEAN_OF ? values[i - MEAN_OF] : 0);
    return sum / Math.min(i + 1, MEAN_OF);
  });
}

/**
 * Where the bar of one step is drawn, in px of the figure: found from the layout that plotly was given.
 * @param {Layout} layout of `gainFigure`
 * @param {number} step
 */
export function barFrame(layout, step) {
  const { margin, height } = layout;
  /** @param {number} x */
  const px = (x) => Math.round(100 * pixel(layout, x)) / 100;
  const left = px(step + 0.5);
  return {
    left,
    top: margin.t,
    width: Math.max(4, px(step + 1.5) - left),
    height: height - margin.t - margin.b,
  };
}
