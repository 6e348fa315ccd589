/** Numbers and words as the page writes them. */

const whole = new Intl.NumberFormat("en");

/** @param {number} n */
export const count = (n) => whole.format(Math.round(n));

/** @param {number} s */
export const seconds = (s) => `${s < 1 ? s.toFixed(2) : s.toFixed(1)} s`;

/**
 * Below ten with a tenth: rounded to whole ones a pass of 4.6 and one of 5.4 ms were the same.
 * @param {number} s seconds
 */
export const milliseconds = (s) => (s < 1 ? `${(1000 * s).toFixed(s < 0.00995 ? 1 : 0)}\u00a0ms` : seconds(s));

/** @param {number} x tokens a second */
export const speed = (x) => (x < 9.95 ? x.toFixed(1) : count(x));

/** @param {number} x */
export const ratio = (x) => x.toFixed(x < 9.995 ? 2 : 1);

/** @param {number} s seconds, in words */
export const duration = (s) =>
  s < 90 ? plural(Math.max(1, Math.round(s)), "second") : plural(Math.round(s / 60), "minute");

/**
 * What follows a ratio of speeds: one that is written as 1.00 is no gain.
 *
 * @param {number} x
 */
export const gained = (x) => (Number(ratio(x)) > 1 ? "faster" : "the speed of plain decoding");

/** @param {number} x */
export const percent = (x) => `${Math.round(100 * x)} %`;

/**
 * @param {number} n
 * @param {string} one
 * @param {string} [many]
 */
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/**
 * A method's name without what was changed about it.
 *
 * @param {string} name
 */
export const bare = (name) => name.split(" (")[0];

/** @type {Record<string, string>} */
const COUNTED = { reading: " bytes", scoring: " tokens" };

/** @param {{ what: string, done: number, total: number }} progress of a datastore that is built first */
export const building = ({ what, done, total }) =>
  `building its datastore: ${what}${total ? `, ${count(done)} of ${count(total)}${COUNTED[what] ?? ""}` : ""}`;

/** @param {string} text */
export const sentence = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);

/** @param {string[]} words */
export const list = (words) =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;

/**
 * A sentence that is written over several lines of source.
 * @param {TemplateStringsArray} parts
 * @param {(string | number)[]} values
 */
export function prose(parts, ...values) {
  const raw = parts.map((part) => part.replace(/\s*\n\s*/g, " "));
  return String.raw({ raw }, ...values);
}

/** What stands for bytes that are part of a character: alone they have no text. */
export const PART = "‹part›";

/**
 * Spaces and line ends made visible, for one token out of its sentence.
 * @param {string} text
 */
export const visible = (text) =>
  text
    .replaceAll(" ", "·")
    .replaceAll("\n", "↵")
    .replaceAll("\t", "⇥")
    .replace(/\ufffd+/g, PART) || "∅";

const LONG = 14;

/** @param {string} text */
export const brief = (text) => {
  const shown = visible(text);
  return shown.length > LONG ? `${shown.slice(0, LONG - 1).replace(/[\ud800-\udbff]$/, "")}…` : shown;
};

/**
 * The end of a text that is longer than `most` characters, from the beginning of a word on where there is one.
 * @param {string} text
 * @param {number} most
 */
export function ending(text, most) {
  if (text.length <= most) return text;
  const cut = text.slice(-most).replace(/^[\udc00-\udfff]/, ""); // half of a character
  const word = /\s/.test(text.slice(-most - 1, -most)) ? 0 : cut.search(/\s\S/) + 1;
  return `… ${cut.slice(word)}`;
}
