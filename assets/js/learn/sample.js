/** A step in one line: the end of the text before it, some of its guesses and what the model picked. */

import { make } from "../common/dom.js";
import { brief, ending } from "../common/format.js";
import { textBefore } from "../stream/lane.js";
import { bonusOf, classOf, factsOf, sourcesOf, wordOf } from "../stream/step-facts.js";

/** @import { Lane } from "../stream/lane.js" */

const BEFORE = 26;

/**
 * @param {Lane} lane
 * @param {number} index of the step
 * @param {Record<number, string>} words text by token id
 * @param {number[]} nodes the guesses to show
 */
export function sample(lane, index, words, nodes) {
  const step = lane.steps[index];
  const { tree, path } = factsOf(step);
  const line = textBefore(lane, index).split("\n").at(-1) ?? "";
  const before = line.trimStart();
  const box = make("div", "sample");
  /**
   * @param {number} token
   * @param {string} look
   */
  const chip = (token, look) => make("i", look, brief(wordOf(words, token)));
  box.append(make("span", "", ending(before, BEFORE)));
  for (const node of nodes) {
    const look = `${path.includes(node) ? "yes" : "no"} ${classOf(sourcesOf(tree, node)[0])}`;
    box.append(" ", chip(tree.tokens[node], look));
  }
  const pick = bonusOf(step);
  if (pick !== undefined) box.append(" ", chip(pick, "pick"));
  return box;
}
