/** Chapters on what drawing at random and half precision do to guesses and to the text. */

import { make } from "../common/dom.js";
import { brief, percent, plural, prose, ratio } from "../common/format.js";

/** @import { Turn } from "../stream/reducer.js" */
/** @import { Chapter, Facts } from "./chapters.js" */

/**
 * A place where stock `generate` and its prompt lookup differ, as `python -m spectra.bench divergence` wrote it. Each
 * pair of logits: of the token that `generate` wrote and of the one that the look-up wrote.
 * @typedef {object} Divergence
 * @property {string} model
 * @property {string} dtype
 * @property {string} place processor and day
 * @property {string} prompt
 * @property {string} before
 * @property {number} index
 * @property {[string, string]} tokens
 * @property {[string, string]} after how each goes on
 * @property {{ alone: [number, number], wide: [number, number], rows: number }} stock
 * @property {{ alone: [number, number], wide: [number, number], rows: number, tokens: number }} exact
 */

const FAST = /, fast\b/; // in the badge of a page whose sums are in no fixed order

const SETTING = { name: "Show the setting", selector: "#field-temperature" };

/**
 * @param {Turn | null} race one that is over
 * @returns {Chapter}
 */
export function temperature(race) {
  return {
    title: "What happens at temperature 1",
    text: [
      prose`With a temperature above 0 the model does not take its likeliest token but draws one at random. The draw at
        each position uses random numbers that depend only on the seed and the position. So the same seed draws the
        same token whether it was guessed or not, and the text is still the same.`,
      prose`Guesses are right less often, though: a draw is harder to foresee than the likeliest token. Set the
        temperature to 1 and race again, and watch the tokens per pass go down while the badge stays.`,
      measured(race),
    ].filter(Boolean),
    pointer: SETTING,
  };
}

/**
 * What came of the guesses of a race that was drawn at random; "" for another one.
 * @param {Turn | null} race
 */
function measured(race) {
  const heat = Number(race?.begin.link.temperature ?? 0);
  const figures = race?.end?.figures.method;
  if (!heat || !figures || !race) return "";
  const { guesses, accepted } = guessed(race);
  const right = guesses
    ? `, and ${percent(accepted / guesses)} of ${plural(guesses, "guess was", "guesses were")} accepted`
    : "";
  const own = isDrawn(race)
    ? " Its method tests drafts by their chances instead, so its text is a draw of its own."
    : "";
  return prose`This race was at temperature ${heat}: ${ratio(figures.tau)} tokens a pass${right}.${own}`;
}

/**
 * Whether the method draws a text of its own, of plain decoding's distribution.
 * @param {Turn | null} race
 */
export function isDrawn(race) {
  const figures = race?.end?.figures;
  return Boolean(figures && "level" in figures && figures.drawn);
}

/** @param {Turn} race */
function guessed({ lanes }) {
  let guesses = 0;
  let accepted = 0;
  for (const { tree, path } of lanes.method.steps) {
    guesses += tree ? tree.tokens.length - 1 - tree.pool.length : 0;
    accepted += path?.length ?? 0;
  }
  return { guesses, accepted };
}

/**
 * @param {Turn | null} race one that is over
 * @returns {Chapter}
 */
export function noise(race) {
  return {
    title: "Drafts that know the noise",
    text: [
      prose`A draw at temperature T is the token with the largest log p + g: p is the model's distribution at T, g the
        noise of that position. The noise is known before the pass, only p is not. So guesses are judged by it too: one
        that the noise speaks against is left out, and a less likely one that it favours comes in. The draft model of
        “SPECTRA with a draft model” offers the tokens with the largest log q + g besides its likeliest. The model
        draws with the same noise whoever guessed, so the text does not change.`,
      measured(race),
    ].filter(Boolean),
    pointer: SETTING,
  };
}

/**
 * @param {Pick<Facts, "badges" | "divergence">} facts
 * @returns {Chapter}
 */
export function precision({ badges, divergence }) {
  const lesson = prose`16-bit numbers are rounded coarsely, and rounding depends on the order of additions. A pass over
    several tokens adds in another order than a pass over one, so two close candidates can change places, and from
    there on the text is another.`;
  const order = prose`every sum has one fixed order (“exact”), so a token gets the same bits alone and inside a tree`;
  const cure = FAST.test(badges[1])
    ? prose`SPECTRA runs so that ${order}. This page runs otherwise (${badges[1]}), so a race may differ at such a
        place.`
    : `Here ${order}. How this page runs: ${badges[1]}.`;
  const pointer = { name: "Show where it says so", selector: ".top .badges" };
  if (!divergence) return { title: "What half precision does", text: [lesson, cure], pointer };
  const { after, index, before, exact } = divergence;
  const words = after.map((text) => `“${text.trim()} …”`);
  const last = before.trimEnd().split(/\s+/).slice(-4).join(" ");
  return {
    title: "What half precision does",
    text: [
      lesson,
      prose`Recorded (${divergence.place}): stock “generate” and its own prompt lookup, both greedy, answer
        “${divergence.prompt}” with ${divergence.model} in ${divergence.dtype}. They write the same
        ${plural(index, "token")}, up to “… ${last}”, then ${words[0]} and ${words[1]}.`,
      prose`${cure} Recorded beside it: SPECTRA and plain decoding wrote the same ${plural(exact.tokens, "token")}. The
        logits of the two words there:`,
    ],
    figure: logits(divergence),
    pointer,
  };
}

/** @param {Divergence} divergence */
function logits({ tokens, stock, exact }) {
  const table = make("table", "logits");
  const head = make("tr");
  head.append(make("th"), ...tokens.map((token) => make("th", "", brief(token))));
  table.append(head);
  table.append(
    row("generate, 1 token a pass", stock.alone),
    row(`prompt lookup, up to ${stock.rows} a pass`, stock.wide),
    row("SPECTRA, 1 token a pass", exact.alone),
    row(`SPECTRA, among ${exact.rows} in a pass`, exact.wide),
  );
  return table;
}

/**
 * The larger one bold.
 * @param {string} name
 * @param {[number, number]} pair
 */
function row(name, pair) {
  const line = make("tr");
  const cells = pair.map((logit) => make("td", logit === Math.max(...pair) ? "most" : "", logit.toFixed(4)));
  line.append(make("th", "", name), ...cells);
  return line;
}
