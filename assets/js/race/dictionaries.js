/** What the dictionaries and datastores held, found and learned at one step: every number from its trace. */

import { make } from "../common/dom.js";
import { count, list, plural, visible } from "../common/format.js";
import { classOf, factsOf, wordOf } from "../stream/step-facts.js";

/** @import { Hit, Inside, Learned, Step } from "../stream/messages.js" */

/** @typedef {Record<number, string>} Words text by token id */

/** @type {Record<string, string>} */
const ORIGINS = { text: "The text", rejected: "After a rejected guess" };

/** Where the method has no such dictionary, or it was switched off. */
const WITHOUT = "This race ran without it.";

/** Where a source knew something, and no node of the step's tree is from it. */
const LEFT_OUT = " No guess of this step came from here.";

/**
 * @param {Step} step
 * @param {Words} words
 */
export function dictionaries(step, words) {
  const { inside } = step;
  const box = document.createDocumentFragment();
  if (!inside) return box;
  const { tree } = factsOf(step);
  /** @type {Record<string, number>} */
  const knew = { forward: inside.forward.length, backward: inside.backward.length, retrieval: inside.hits.length };
  /** @param {string} source */
  const used = (source) =>
    !knew[source] || tree.sources.some((names) => names.split(",").includes(source)) ? "" : LEFT_OUT;
  const last = wordOf(words, tree.tokens[0]);
  const told = textsOf(step, visible(last));
  box.append(forward(inside, told.forward + used("forward"), words));
  box.append(backward(inside, told.backward + used("backward"), words));
  if (inside.learned.length || inside.refined.length || told.some) box.append(learned(inside, words));
  if (inside.hits.length) box.append(hits(inside.hits, words, used("retrieval")));
  return box;
}

/**
 * @param {string} className
 * @param {string} head
 * @param {string} text
 */
function section(className, head, text) {
  const box = make("section", className);
  box.append(make("h3", "", head), make("p", "", text));
  return box;
}

/**
 * Tokens as small boxes.
 * @param {number[]} tokens
 * @param {Words} words
 */
const run = (tokens, words) => tokens.map((token) => make("code", "", visible(wordOf(words, token))));

/**
 * What is said of the two dictionaries. some: the race ran with one of them.
 * @param {Step} step
 * @param {string} last the token they are asked with
 */
export function textsOf({ inside, held = {} }, last) {
  const { forward = [], backward = [] } = inside ?? {};
  const has = (/** @type {string} */ source) => Object.hasOwn(held, source);
  const known = forward.length
    ? `Held for “${last}”, newest first: ${plural(forward.length, "continuation")}.`
    : `Nothing held for “${last}”.`;
  const found = backward.length
    ? "Looked up with the end of the text, then with what it held appended, to the first miss or the longest guess."
    : "It knows no end of this text.";
  return {
    forward: has("forward") || forward.length ? known : WITHOUT,
    backward: has("backward") || backward.length ? found : WITHOUT,
    some: has("forward") || has("backward"),
  };
}

/**
 * @param {Inside} inside
 * @param {string} text
 * @param {Words} words
 */
function forward({ forward }, text, words) {
  const box = section(classOf("forward"), "Forward dictionary", text);
  const list = make("ol");
  for (const tokens of forward) {
    const item = make("li");
    item.append(...run(tokens, words));
    list.append(item);
  }
  box.append(list);
  return box;
}

/**
 * @param {Inside} inside
 * @param {string} text
 * @param {Words} words
 */
function backward({ backward }, text, words) {
  const box = section(classOf("backward"), "Backward dictionary", text);
  const list = make("ol");
  for (const [match, token] of backward) {
    const item = make("li");
    item.append(make("span", "", `last ${plural(match, "token")} →`), ...run([token], words));
    list.append(item);
  }
  box.append(list);
  return box;
}

/**
 * @param {Inside} inside
 * @param {Words} words
 */
function learned({ learned, refined }, words) {
  const grams = learned.reduce((sum, each) => sum + each.forward.length + each.backward.length, 0);
  const draws = refined.filter(Boolean).length;
  const pool = refined.length
    ? ` The refine draw asked ${plural(draws, "row")} of ${count(refined.length)} for a token that begins no n-gram.`
    : "";
  const box = section("learned", "What this step put in", `${plural(grams, "entry", "entries")}.${pool}`);
  const list = make("ol");
  for (const each of learned) {
    const item = make("li");
    const sizes = `${count(each.forward.length)} forward, ${count(each.backward.length)} backward`;
    item.append(make("span", "", originOf(each, refined)), ...run(each.tokens, words), make("small", "", sizes));
    list.append(item);
  }
  box.append(list);
  return box;
}

/**
 * @param {Learned} one
 * @param {boolean[]} refined
 */
function originOf({ origin, place }, refined) {
  if (origin !== "pool") return `${ORIGINS[origin] ?? origin}:`;
  return `Pool row ${count(place + 1)}${refined[place] ? ", refined" : ""}:`;
}

/**
 * How often the end of the text was seen; by store, where several know it.
 * @param {Hit[]} found
 */
export function seenIn(found) {
  const seen = [...new Map(found.map((hit) => [hit.store, hit.seen]))];
  if (seen.length === 1) return plural(seen[0][1], "time");
  return list(seen.map(([store, times]) => `${plural(times, "time")} in ${store}`));
}

/**
 * Why a hit has no figures of the texts that have it; "" where each has.
 * @param {Hit[]} found
 */
export function untold(found) {
  if (found.some(({ texts }) => texts === null))
    return " No texts are told where those tokens reach into the opening of an answer, or by a store that keeps none.";
  return found.some(({ perplexity }) => perplexity === null) ? " Texts of an unrefined store have no perplexity." : "";
}

/**
 * @param {Hit[]} found
 * @param {Words} words
 * @param {string} fate
 */
function hits(found, words, fate) {
  const seen = `After the same last ${plural(found[0].match, "token")}, seen ${seenIn(found)}.`;
  const text = `${seen}${untold(found)}${fate}`;
  const box = section(classOf("retrieval"), "Datastores", text);
  const table = make("table");
  const head = make("tr");
  for (const name of ["Next token", "Times", "Store", "Texts", "Lowest perplexity"]) head.append(make("th", "", name));
  table.append(head);
  for (const { token, times, store, texts, perplexity } of found) {
    const row = make("tr");
    const cell = make("td");
    cell.append(...run([token], words));
    row.append(cell);
    const figures = [count(times), store, texts === null ? "–" : count(texts), perplexity?.toFixed(2) ?? "–"];
    row.append(...figures.map((text) => make("td", "", text)));
    table.append(row);
  }
  box.append(table);
  return box;
}
