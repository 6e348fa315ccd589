/** Why a step went as it did, in sentences read off its trace. Pure. */

import { count, list, milliseconds, plural, sentence, visible } from "../common/format.js";
import { bonusOf, sourcesOf, wordOf } from "../stream/step-facts.js";

/** @import { Step } from "../stream/messages.js" */
/** @import { StepFacts } from "../stream/step-facts.js" */

/** @type {Record<string, string>} */
const FINISHES = {
  eos: "The model ended its answer here.",
  length: "The answer reached its length limit here.",
};

/**
 * What the step gained.
 * @param {Step} step
 * @param {StepFacts} facts
 */
export function gist({ sources }, { path }) {
  const kept = Math.min(path.length, sources.length);
  return `${plural(kept, "guess", "guesses")} accepted, ${plural(sources.length - kept, "token")} from the model.`;
}

/**
 * @param {Step} step
 * @param {StepFacts} facts
 * @param {Record<number, string>} words text by token id
 * @param {Map<string, string>} names of the sources
 * @param {boolean} [drawn] drafts were tested by their chances, not by what the model picks
 * @returns {string[]}
 */
export function reasons(step, facts, words, names, drawn = false) {
  const { guesses, path, pool } = facts;
  const size = path.length === 1 ? "one pick was" : `${count(path.length)} picks were`;
  const picked = `the model picked its own next token at each node; ${size} in the tree`;
  const tested = `drafts were tested by their chances and the model's; ${plural(path.length, "draft")} passed`;
  const more = plural(pool.size, "more token was", "more tokens were");
  return [
    held(step, names),
    guesses.length ? offered(step, facts, names) : plain(step, pool.size),
    scored(step, guesses.length),
    path.length ? `From the left, ${drawn ? tested : picked}, so the walk went on.` : "",
    guesses.length ? ending(step, facts, words, drawn) : "",
    step.finish ? (FINISHES[step.finish] ?? "The answer ended here.") : "",
    pool.size ? `${more} scored only to refresh the candidate pool, not as guesses.` : "",
  ].filter(Boolean);
}

/**
 * @param {Step} step
 * @param {Map<string, string>} names
 */
function held(step, names) {
  const parts = [];
  for (const [source, size] of Object.entries(step.held ?? {})) {
    const name = names.get(source);
    if (name === undefined) continue;
    parts.push(source === "ngram" ? count(size) : `${count(size)} in the ${name.toLowerCase()}`);
  }
  return parts.length ? `N-grams held by then: ${list(parts)}.` : "";
}

/**
 * @param {Step} step
 * @param {number} rows tokens of the pool, which make a step wider than a plain one
 */
function plain({ offered, finish }, rows) {
  const known = offered ?? 0;
  const so = rows ? "so nothing was guessed" : "so this was a plain step";
  if (!known && finish === "length") return `One token was left to write: no guess could help, ${so}.`;
  const why = known
    ? `None of ${plural(known, "known guess", "known guesses")} was worth its time`
    : "No source offered a guess";
  return `${why} here, ${so}.`;
}

/**
 * @param {Step} step
 * @param {StepFacts} facts
 * @param {Map<string, string>} names
 */
function offered(step, { tree, guesses }, names) {
  const known = Math.max(step.offered ?? 0, guesses.length);
  const asked = new Set(guesses.flatMap((node) => sourcesOf(tree, node)));
  const who = list([...names].filter(([source]) => asked.has(source)).map(([, name]) => name.toLowerCase()));
  if (known === guesses.length) return `${sentence(who)} offered ${plural(known, "token")}, all in one tree.`;
  const one = guesses.length === 1;
  const size = count(guesses.length);
  const likeliest = one ? "likeliest to pay was" : `${size} likeliest to pay were`;
  const kept = tree.chances ? likeliest : `first ${one ? "was" : `${size} were`}`; // no chances: a fixed number
  return `${count(known)} tokens were offered, all in one tree; the ${kept} kept, from ${who}.`;
}

/**
 * @param {Step} step
 * @param {number} guesses
 */
function scored(step, guesses) {
  const what = guesses ? "all of them" : "the last token";
  return `One forward pass scored ${what}, ${milliseconds(step.seconds)} for the whole step.`;
}

/**
 * Where the walk through the tree ended, and what was picked there.
 * @param {Step} step
 * @param {StepFacts} facts
 * @param {Record<number, string>} words
 * @param {boolean} drawn
 */
function ending(step, { tree, path, pool }, words, drawn) {
  const bonus = bonusOf(step);
  if (bonus === undefined) return "";
  const leaf = path.at(-1) ?? 0;
  const picked = `“${visible(wordOf(words, bonus))}”`;
  const branched = tree.parents.some((parent, node) => parent === leaf && node > 0 && !pool.has(node));
  if (!branched) return `There the branch ended. The pick ${picked} came on top, free.`;
  if (drawn) return `No draft there passed: ${picked} was drawn from what they leave of the model's chances.`;
  const who = path.length ? "Then it" : "The model";
  return `${who} picked ${picked}, which no branch had. That pick was written, so the pass still gained a token.`;
}
