/** What a race that is over claims: the large word or figure, and the line under it. Pure. */

import { count, gained, plural, ratio } from "../common/format.js";

/** @import { ComparedFigures } from "../stream/messages.js" */

/** @typedef {{ score: string, verdict: string }} Claim */

/**
 * Whether the method spared any pass. Where it did not, what it was faster by is noise: a pass of guesses takes no less
 * time than a plain one.
 * @param {ComparedFigures} figures
 */
export const sparedPasses = ({ method }) => method.tau > 1;

/**
 * @param {ComparedFigures} figures of a race that shared no passes
 * @param {string | undefined} cut what ended the race early
 * @param {boolean} recorded
 * @returns {Claim}
 */
export function claimOf(figures, cut, recorded) {
  const { speedup, level } = figures;
  const early = cut ? `${cut}: ` : "";
  if (speedup === null) {
    const few = `${plural(level.tokens, "token")}: too little was decoded to compare`;
    return { score: "Too short", verdict: `${early}${few}` };
  }
  if (!sparedPasses(figures) && Number(ratio(speedup)) > 1) {
    return { score: "No gain", verdict: `${early}it took a pass for every token, so ${ratio(speedup)}× is noise` };
  }
  return { score: `${ratio(speedup)}×`, verdict: `${early}${gained(speedup)}, ${place(figures, recorded)}` };
}

/**
 * @param {ComparedFigures} figures
 * @param {boolean} recorded
 */
function place({ level, whole }, recorded) {
  if (!whole) return `over the first ${count(level.tokens)} tokens of both`;
  return recorded ? "in this recording" : "measured on this page";
}
