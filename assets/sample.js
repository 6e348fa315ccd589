// A step in one line: the end of the text before it, some of its guesses and what the model picked.
import { brief, make } from "./format.js";

const BEFORE = 26;

// nodes: the guesses to show. words: text by token id.
export function sample(lane, step, words, nodes) {
  const { tree, path = [], picks } = lane.steps[step];
  const box = make("div", "sample");
  const before = lane.text.slice(0, lane.starts[step]).split("\n").at(-1).trimStart();
  box.append(make("span", "", before.length > BEFORE ? `… ${before.slice(-BEFORE)}` : before));
  const chip = (token, look) => make("i", look, brief(words[token] ?? `#${token}`));
  for (const node of nodes) box.append(" ", chip(tree.tokens[node], `${path.includes(node) ? "yes" : "no"} ${tree.sources[node].split(",")[0]}`));
  if (picks[path.length] !== undefined) box.append(" ", chip(picks[path.length], "pick"));
  return box;
}
