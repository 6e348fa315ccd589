/** How a source looks that is not among the project's own: as visual/palette.py has it in texts and trees. Pure. */

/** @import { Look } from "./tab.js" */

/**
 * @param {string} source small letters, digits and hyphens
 * @returns {Look}
 */
function otherLook(source) {
  const name = source.charAt(0).toUpperCase() + source.slice(1).replaceAll("-", " ");
  return { source, name, meaning: "A drafter that is not the project's own", hatch: "", dash: "3 3" };
}

/**
 * The looks, and one for each of these sources that has none; the very same ones where all have.
 * @param {Look[]} looks
 * @param {Iterable<string>} sources
 * @returns {Look[]}
 */
export function withOthers(looks, sources) {
  const others = new Set(sources);
  for (const { source } of looks) others.delete(source);
  return others.size ? [...looks, ...Array.from(others, otherLook)] : looks;
}
