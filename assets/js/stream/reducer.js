/**
 * What a page holds of its runs, as a function of the messages that came: `reduce(stream, message)` is the next stream.
 * Pure: no DOM, no clock. Race and Replay show the one turn there is, Compare its many lanes, Chat every turn.
 */

import { EMPTY_LANE, extend } from "./lane.js";

/** @import { Lane } from "./lane.js" */
/** @import { Begin, BriefStep, ComparedRow, Delta, End, Level, News, Outcome, Readout } from "./messages.js" */
/** @import { RunMessage, Snapshot, Step } from "./messages.js" */

/**
 * One run. A new `begin` object means that it is to be shown from its start, by a snapshot too.
 * @template {BriefStep} [S=Step]
 * @typedef {object} Turn
 * @property {string} run
 * @property {"running" | Outcome} state
 * @property {Begin} begin
 * @property {Record<string, Lane<S>>} lanes
 * @property {Level | null} level
 * @property {number} shared
 * @property {ComparedRow[]} rows
 * @property {Readout | null} readout
 * @property {End | null} end
 */

/**
 * cleared: the run that was on the page when it was cleared. behind: a message is missing, so a snapshot is needed.
 * @template {BriefStep} [S=Step]
 * @typedef {object} Stream
 * @property {readonly Turn<S>[]} turns
 * @property {string | null} cleared
 * @property {boolean} behind
 */

/** @type {Stream<never>} */
export const EMPTY = { turns: [], cleared: null, behind: false };

/**
 * The stream after a message; the very same one where the message changes nothing.
 * @template {BriefStep} S
 * @param {Stream<S>} stream
 * @param {RunMessage<S>} message
 * @returns {Stream<S>}
 */
export function reduce(stream, message) {
  const current = stream.turns.at(-1);
  if (message.kind === "clear") return { turns: [], cleared: current?.run ?? stream.cleared, behind: false };
  if (message.kind === "back") return { ...stream, turns: stream.turns.slice(0, message.turn), behind: false };
  if (message.run === stream.cleared) return stream; // it was on its way when the page was cleared
  if (message.kind === "begin") return begun(stream, message, message.turn);
  if (message.kind === "snapshot") return isLate(message, current) ? stream : whole(stream, message);
  if (message.run !== current?.run || misses(current, message)) return { ...stream, behind: true };
  if (current.end) return stream; // it crossed with Stop
  return withLast(stream, message.kind === "delta" ? grown(current, message) : over(current, message));
}

/**
 * @template {BriefStep} S
 * @param {Stream<S>} stream
 * @param {Begin} begin
 * @param {number} [turn] its place in a conversation; a turn that is sent again replaces itself
 * @returns {Stream<S>}
 */
function begun(stream, begin, turn = 0) {
  /** @type {Turn<S>} */
  const fresh = {
    run: begin.run,
    state: "running",
    begin,
    lanes: Object.fromEntries(Object.keys(begin.lanes).map((name) => [name, EMPTY_LANE])),
    level: null,
    shared: 0,
    rows: [],
    readout: null,
    end: null,
  };
  return { ...stream, turns: [...stream.turns.slice(0, turn), fresh], behind: false };
}

/**
 * @template {BriefStep} S
 * @param {Stream<S>} stream
 * @param {Snapshot<S>} snapshot
 */
function whole(stream, snapshot) {
  const fresh = begun(stream, snapshot.begin, snapshot.turn);
  const turn = grown(fresh.turns[fresh.turns.length - 1], snapshot);
  return withLast(fresh, snapshot.end ? over(turn, snapshot.end) : turn);
}

/**
 * Whether a snapshot was made before the end of its run, which is here already: after it nothing more would come.
 * @template {BriefStep} S
 * @param {Snapshot<S>} snapshot
 * @param {Turn<S>} [current]
 */
function isLate({ run, end }, current) {
  return run === current?.run && Boolean(current.end) && !end;
}

/**
 * Whether a message before this one never came.
 * @template {BriefStep} S
 * @param {Turn<S>} turn
 * @param {Delta<S> | End} message
 */
function misses({ lanes }, message) {
  return Object.entries(lanes).some(([name, { steps }]) =>
    message.kind === "delta" ? message.from[name] > steps.length : message.counts[name] !== steps.length,
  );
}

/**
 * @template {BriefStep} S
 * @param {Turn<S>} turn
 * @param {News<S>} news
 * @returns {Turn<S>}
 */
function grown(turn, { from, lanes, level, shared, rows, readout }) {
  const longer = Object.entries(turn.lanes).map(([name, lane]) => {
    const fresh = lanes[name].slice(lane.steps.length - from[name]);
    return [name, extend(lane, fresh)];
  });
  return {
    ...turn,
    lanes: Object.fromEntries(longer),
    level: level ?? turn.level,
    shared: shared ?? turn.shared,
    rows: rows ?? turn.rows,
    readout: readout ?? turn.readout,
  };
}

/**
 * @template {BriefStep} S
 * @param {Turn<S>} turn
 * @param {End} end
 * @returns {Turn<S>}
 */
function over(turn, end) {
  return { ...turn, state: end.state, rows: end.rows ?? turn.rows, readout: end.readout ?? turn.readout, end };
}

/**
 * @template {BriefStep} S
 * @param {Stream<S>} stream
 * @param {Turn<S>} turn
 * @returns {Stream<S>}
 */
function withLast(stream, turn) {
  return { ...stream, turns: [...stream.turns.slice(0, -1), turn], behind: false };
}
