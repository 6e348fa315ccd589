/** A datastore's card: what it holds, and the perplexities its texts were chosen by. */

import { make } from "../common/dom.js";
import { count, plural } from "../common/format.js";

/** @type {Record<string, [one: string, many?: string]>} why texts were left out */
const WHY = {
  duplicate: ["duplicate", "duplicates"],
  similar: ["near duplicate", "near duplicates"],
  short: ["too short"],
  repetitive: ["repeating itself", "repeating themselves"],
  bad: ["unreadable"],
  filtered: ["of another kind", "of other kinds"],
  excluded: ["answer to a benchmark's prompt", "answers to the benchmarks' prompts"],
  unscored: ["not scored"],
};

/** @typedef {{ texts: number, tokens: number }} Amount */

/** @typedef {{ edges: number[], scored: number[], kept: number[], cutoff: number }} Perplexity texts in bins */

/**
 * @typedef {object} Card
 * @property {string} name
 * @property {string} model
 * @property {boolean} refined
 * @property {string} licence
 * @property {number} bytes
 * @property {Amount} kept
 * @property {Amount} [seen]
 * @property {Record<string, number>} [dropped]
 * @property {{ order: number, contexts: number }} index
 * @property {Perplexity} [perplexity]
 * @property {{ name: string }[]} [corpus]
 */

/** @param {Card} card */
export function storeCard(card) {
  const box = make("section", "card store");
  const words = make("div");
  const list = make("dl");
  const how = card.refined ? "the texts of lowest perplexity under the model" : "a random sample of texts";
  for (const [name, value] of rowsOf(card)) {
    if (value) list.append(make("dt", "", name), make("dd", "", value));
  }
  words.append(make("h2", "", card.name), make("p", "", `For ${card.model}: ${how}.`), list);
  box.append(words);
  if (card.refined && card.perplexity) box.append(histogram(card.perplexity));
  return box;
}

/**
 * @param {Card} card
 * @returns {[string, string][]}
 */
function rowsOf({ kept, seen, dropped, index, bytes, corpus, licence }) {
  const lost = Object.entries(dropped ?? {}).filter(([, n]) => n);
  const left = lost.map(([why, n]) => {
    const [one, many = one] = WHY[why] ?? [why];
    return plural(n, one, many);
  });
  return [
    ["Texts", `${count(kept.texts)} of ${count(seen?.texts ?? kept.texts)} kept`],
    ["Left out", left.join(", ")],
    ["Tokens", count(kept.tokens)],
    ["Index", `${count(index.contexts)} contexts of up to ${plural(index.order, "token")}`],
    ["Size", bytes < 1e5 ? `${Math.ceil(bytes / 1000)} kB` : `${(bytes / 1e6).toFixed(1)} MB`],
    ["From", (corpus ?? []).map(({ name }) => name).join(", ")],
    ["Licence", licence],
  ];
}

/**
 * A bar for each bin of the perplexities: what was kept in front of all that was scored, and the cut-off between them.
 * @param {Perplexity} perplexity
 */
function histogram(perplexity) {
  const { edges, scored, kept, cutoff } = perplexity;
  const used = [...scored.keys()].filter((i) => scored[i]);
  const first = used[0];
  const last = used[used.length - 1];
  const cut = edges.findIndex((edge, i) => i > first && edge > cutoff) - 1;
  const bars = make("div", "bins");
  for (let i = first; i <= last; i++) bars.append(bin(perplexity, i, i === cut));
  const share = `${count(total(kept))} of ${count(total(scored))} texts kept, cut off at ${cutoff.toFixed(2)}`;
  bars.setAttribute("role", "img");
  bars.setAttribute("aria-label", `Histogram of perplexities: ${share}`);
  const ends = make("div", "ends");
  const axis = make("span", "", "perplexity of the text, log scale");
  ends.append(make("span", "", edges[first].toFixed(1)), axis, make("span", "", edges[last + 1].toFixed(1)));
  const limit = `up to a perplexity of ${cutoff.toFixed(2)} (the line)`;
  const caption = make("figcaption", "", `Kept: the texts that surprise the model least, ${limit}.`);
  const figure = make("figure", "perplexity");
  figure.style.setProperty("--bins", String(last - first + 1));
  figure.append(caption, bars, ends);
  return figure;
}

/** @param {number[]} numbers */
const total = (numbers) => numbers.reduce((sum, n) => sum + n, 0);

/**
 * @param {Perplexity} perplexity
 * @param {number} i
 * @param {boolean} cut whether the cut-off lies in it
 */
function bin({ edges, scored, kept, cutoff }, i, cut) {
  const highest = Math.max(...scored);
  const box = make("span");
  const all = make("i");
  const some = make("b");
  const range = `perplexity ${edges[i].toFixed(1)} to ${edges[i + 1].toFixed(1)}`;
  all.style.height = `${(100 * scored[i]) / highest}%`;
  some.style.height = `${(100 * kept[i]) / highest}%`;
  box.title = `${range}: ${count(kept[i])} of ${count(scored[i])} kept`;
  if (cut) {
    const at = (100 * Math.max(0, cutoff - edges[i])) / (edges[i + 1] - edges[i]);
    box.className = "cut";
    box.style.setProperty("--at", `${at}%`);
  }
  box.append(all, some);
  return box;
}
