/** Runs as the server would send them, for the tests. */

/** @import { Lane } from "../../../assets/js/stream/lane.js" */
/** @import { Begin, ComparedFigures, Delta, End } from "../../../assets/js/stream/messages.js" */
/** @import { LaneFigures, Snapshot, Step } from "../../../assets/js/stream/messages.js" */

/** @typedef {Record<string, Step[]>} Steps by lane */

/**
 * A step that wrote one word a source.
 * @param {string[]} sources
 * @param {Partial<Step>} [more]
 * @returns {Step}
 */
export function stepOf(sources, more = {}) {
  const pieces = sources.map((source) => /** @type {[number, string]} */ ([1, ` ${source}`]));
  return { seconds: 0.25, sources, pieces, picks: [], ...more };
}

/**
 * @param {string} run
 * @param {Record<string, string>} lanes
 * @param {Partial<Begin>} [more]
 * @returns {Begin}
 */
export function beginOf(run, lanes, more = {}) {
  return { kind: "begin", run, lanes, names: lanes, cap: 64, link: { prompt: "hello", method: "spectra" }, ...more };
}

/**
 * @param {string} run
 * @param {Record<string, number>} from
 * @param {Steps} lanes
 * @param {Partial<Delta>} [more]
 * @returns {Delta}
 */
export function deltaOf(run, from, lanes, more = {}) {
  return { kind: "delta", run, from, lanes, ...more };
}

/**
 * @param {string} run
 * @param {Record<string, number>} counts
 * @param {Partial<End>} [more]
 * @returns {End}
 */
export function endOf(run, counts, more = {}) {
  return {
    kind: "end",
    run,
    state: "done",
    problem: null,
    counts,
    figures: { plain: null, method: null },
    words: {},
    ...more,
  };
}

/**
 * Everything so far in one message.
 * @param {Begin} begin
 * @param {Steps} lanes
 * @param {End | null} end
 * @param {Partial<Snapshot>} [more]
 * @returns {Snapshot}
 */
export function snapshotOf(begin, lanes, end, more = {}) {
  const from = Object.fromEntries(Object.keys(lanes).map((name) => [name, 0]));
  return { kind: "snapshot", run: begin.run, begin, from, lanes, end, ...more };
}

/**
 * The value with everything in it frozen: who writes to it gets an error.
 * @template T
 * @param {T} value
 * @returns {T}
 */
export function frozen(value) {
  if (value !== null && typeof value === "object" && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const each of Object.values(value)) frozen(each);
  }
  return value;
}

/**
 * Numbers from 0 to 1, the same ones for a seed (mulberry32).
 * @param {number} seed
 */
export function dice(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * The source of every token of a lane.
 * @param {Lane} lane
 */
export const sourcesIn = (lane) => lane.steps.flatMap(({ sources }) => sources);

/**
 * @param {Partial<LaneFigures>} more
 * @returns {LaneFigures}
 */
function figuresOf(more) {
  return {
    tokens: 8,
    passes: 8,
    seconds: 2,
    rate: 4,
    tau: 1,
    first: 0.5,
    distinct4: 1,
    finish: "length",
    acceptance: {},
    offered: {},
    of_guessed: {},
    guessed: {},
    ...more,
  };
}

/** @type {ComparedFigures} */
export const COMPARED = {
  plain: figuresOf({}),
  method: figuresOf({ passes: 4, seconds: 1, rate: 8, tau: 2 }),
  whole: true,
  drawn: false,
  differs: null,
  same: 8,
  speedup: 2,
  few: false,
  shared: 0,
  why: "",
  cut: "",
  level: { tokens: 8, plain: 2, method: 1 },
};
