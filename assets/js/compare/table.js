/** The table of Compare: its columns, its rows and its CSV. */

import { make } from "../common/dom.js";
import { count, list, percent, prose, ratio, sentence, speed } from "../common/format.js";
import { PLAIN } from "../stream/lane.js";

/** @import { Lane } from "../stream/lane.js" */
/** @import { BriefStep, ComparedRow, Outcome } from "../stream/messages.js" */

/** @type {(keyof ComparedRow)[]} */
const CSV = [
  "method",
  "changed",
  "tokens",
  "seconds",
  "rate",
  "speedup",
  "macro",
  "macro_speedup",
  "tau",
  "passes",
  "acceptance",
  "of_reached",
  "differs",
  "drawn",
  "shared",
];

/**
 * @typedef {object} Column
 * @property {string} name
 * @property {string} [unit] of its figures
 * @property {string} [help] what it is
 * @property {(row: ComparedRow, stage: Stage) => string} text
 */

/** @typedef {"ended" | "running" | Outcome} Stage ended: of a method that has; the others are those of the whole run */

/** What is said of an answer that has not ended, by the stage of the whole run. */
const OPEN = { running: "…", stopped: "stopped", failed: "ended early", done: "" };

/** @type {Column} */
const METHOD = { name: "Method", text: (row) => row.name };
/** @type {Column} */
const SPEEDUP = {
  name: "Speedup",
  text: ({ speedup, few }) => {
    const none = few ? "–" : "";
    return speedup ? `${ratio(speedup)}×` : none;
  },
};
/** @type {Column} */
const OUTPUT = { name: "Output", text: (row, stage) => (stage === "ended" ? agreement(row).text : OPEN[stage]) };

const MACRO = prose`Mean over the passes of tokens / seconds of the pass, the prompt's time left out: what the
  speedups of the paper are ratios of`;

/** @param {ComparedRow} row */
function macro({ macro, macro_speedup }) {
  if (macro === undefined) return "";
  return macro_speedup ? `${speed(macro)} (${ratio(macro_speedup)}×)` : speed(macro);
}

/** @param {ComparedRow} row */
function accepted({ method, acceptance, offered }) {
  if (typeof acceptance === "number") return percent(acceptance);
  if (method === PLAIN || typeof offered !== "number") return "–";
  return offered ? "none tried" : "nothing offered";
}

/** @type {Column[]} */
const COLUMNS = [
  METHOD,
  {
    name: "Mic-TP",
    unit: "tokens/s",
    help: "All tokens / all time, the prompt's included",
    text: (row) => speed(row.rate),
  },
  SPEEDUP,
  { name: "Mac-TP", unit: "tokens/s", help: MACRO, text: macro },
  { name: "Tokens a pass (τ)", text: (row) => ratio(row.tau) },
  { name: "Passes", text: (row) => count(row.passes) },
  {
    name: "Guesses accepted",
    help: "Accepted / all guessed tokens, as the paper counts; the CSV also has the share of the judged ones",
    text: accepted,
  },
  OUTPUT,
];

/**
 * How a method's answer compares with plain decoding's.
 * @param {ComparedRow} row
 */
function agreement({ differs, drawn }) {
  if (differs === null) return { text: "identical", look: "same" };
  if (drawn) return { text: "another draw", look: "" };
  return { text: `differs at ${count(differs + 1)}`, look: "differs" };
}

export function headRow() {
  const head = make("tr");
  for (const { name, unit, help = "" } of COLUMNS) {
    const cell = make("th", "", name);
    if (unit) cell.append(" ", make("small", "", unit));
    cell.scope = "col";
    cell.title = help;
    head.append(cell);
  }
  return head;
}

/**
 * A method that has not ended: what its steps say by now.
 * @param {{ lane: string, method: string, name: string }} who
 * @param {Lane<BriefStep>} lane
 * @returns {ComparedRow}
 */
export function liveRow(who, { steps, tokens, seconds }) {
  const passes = steps.length;
  const rate = seconds ? tokens / seconds : 0;
  return { ...who, passes, tokens, rate, tau: passes ? tokens / passes : 0, differs: null, open: true };
}

/**
 * @param {ComparedRow} row
 * @param {Stage} stage
 * @param {boolean} best whether it is the fastest of several
 */
export function tableRow(row, stage, best) {
  const line = make("tr", classOf(row, stage));
  line.dataset.method = row.method;
  line.dataset.lane = row.lane;
  for (const column of COLUMNS) {
    if (column === METHOD) line.append(nameCell(row));
    else line.append(make("td", lookOf(column, row, stage, best), row.passes ? column.text(row, stage) : ""));
  }
  return line;
}

/**
 * @param {ComparedRow} row
 * @param {Stage} stage
 */
function classOf({ passes }, stage) {
  if (stage === "ended") return "";
  return stage === "running" && passes ? "now" : "later";
}

/** @param {ComparedRow} row */
function nameCell(row) {
  const cell = make("th", "", METHOD.text(row, "ended"));
  cell.scope = "row";
  return cell;
}

/**
 * @param {Column} column
 * @param {ComparedRow} row
 * @param {Stage} stage
 * @param {boolean} best
 */
function lookOf(column, row, stage, best) {
  if (column === SPEEDUP && best) return "best";
  return column === OUTPUT && stage === "ended" ? agreement(row).look : "";
}

/**
 * What did not come of the settings of some methods, a sentence each; with the methods' names where there are several.
 * @param {ComparedRow[]} rows
 */
export function cutsOf(rows) {
  /** @type {Map<string, string[]>} names by what is said of them */
  const told = new Map();
  for (const { cut, name } of rows) if (cut) told.set(cut, [...(told.get(cut) ?? []), name]);
  return [...told].map(([cut, names]) => (told.size > 1 ? `${list(names)}: ${cut}` : sentence(cut)));
}

/** @param {ComparedRow[keyof ComparedRow]} value */
function cellOf(value) {
  const text = String(value ?? "");
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/**
 * The rows as a CSV file.
 * @param {ComparedRow[]} rows
 */
export function csvOf(rows) {
  const lines = rows.map((row) => CSV.map((name) => cellOf(row[name])).join(","));
  return `${[CSV.join(","), ...lines].join("\n")}\n`;
}
