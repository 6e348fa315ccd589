/** Chapters on trees of drafts. Their figures are the visitor's last race, or the recorded one where that has none. */

import { make } from "../common/dom.js";
import { count, percent, plural, prose } from "../common/format.js";
import { withOthers } from "../common/looks.js";
import { tokenTree } from "../race/token-tree.js";
import { bonusOf, factsOf, toldOf } from "../stream/step-facts.js";
import { bars } from "./bars.js";

/** @import { Look } from "../common/tab.js" */
/** @import { Step } from "../stream/messages.js" */
/** @import { Turn } from "../stream/reducer.js" */
/** @import { Chapter } from "./chapters.js" */

const HUB = "spechub";
const LONGEST = 3; // accepted guesses that a chapter has room for

/** @param {Turn} turn */
const whose = ({ begin }) => (begin.recorded ? "the recorded race" : "your last race");

/**
 * The step without what lies behind rejected guesses: the places that the walk reached, with all that stood there.
 * @param {Step} step
 * @returns {Step}
 */
export function reached(step) {
  const { tree, path, pool } = factsOf(step);
  const walk = new Set([0, ...path]);
  const kept = [...tree.tokens.keys()].filter((node) => !node || (walk.has(tree.parents[node]) && !pool.has(node)));
  /** @param {number} node */
  const moved = (node) => kept.indexOf(node);
  return {
    ...step,
    tree: {
      tokens: kept.map((node) => tree.tokens[node]),
      parents: kept.map((node) => (node ? moved(tree.parents[node]) : -1)),
      sources: kept.map((node) => tree.sources[node]),
      chances: tree.chances && kept.map((node) => tree.chances?.[node] ?? null),
      rows: kept.map((node) => tree.rows[node]),
      pool: [],
    },
    path: path.map(moved),
  };
}

/**
 * How many guesses stood at each place that the walk reached, where there were any.
 * @param {Step} step
 */
function widths(step) {
  const { tree, path } = factsOf(reached(step));
  return [0, ...path].map((node) => tree.parents.filter((parent) => parent === node).length).filter(Boolean);
}

/**
 * The step with two guesses at one place that got furthest, of those that fit where there are any; -1 where there is
 * none.
 * @param {readonly Step[]} steps
 */
export function branched(steps) {
  /** @param {number} length of the accepted path */
  const worth = (length) => (length > LONGEST ? 1 / length : length);
  let best = -1;
  let most = 0;
  for (const [i, step] of steps.entries()) {
    const length = step.path?.length ?? 0;
    if (!length || worth(length) <= most || Math.max(0, ...widths(step)) < 2) continue;
    best = i;
    most = worth(length);
  }
  return best;
}

/**
 * @param {Turn | null} race one that is over
 * @param {Turn | null} recorded one with draft trees
 * @param {Look[]} legend
 * @returns {Chapter}
 */
export function trees(race, recorded, legend) {
  const own = race && branched(race.lanes.method.steps) >= 0;
  const turn = own ? race : recorded;
  const index = turn ? branched(turn.lanes.method.steps) : -1;
  /** @type {Chapter} */
  const chapter = {
    title: "Trees, and draws that are tested one by one",
    text: [
      prose`Several guesses at one place make a tree, and one pass scores all of it. A guess without a probability is
        right when it equals the model's own draw. A draft model's draw x carries one, q(x): it is accepted with chance
        min(1, p(x)/q(x)); if it is not, q is taken away from p, and the next draw at that place is tested against what
        is left. So the text keeps the model's distribution, however many draws there were (SpecInfer).`,
    ],
  };
  if (!turn || index < 0) return chapter;
  const step = reached(turn.lanes.method.steps[index]);
  const words = turn.end?.words ?? {};
  const names = new Map(withOthers(legend, toldOf(step)).map(({ source, name }) => [source, name]));
  const guesses = (step.tree?.tokens.length ?? 1) - 1;
  const from = own ? whose(turn) : `a recorded race${race ? ", as the last one has no such tree" : ""}`;
  chapter.text.push(prose`Step ${index + 1} of ${from} (${turn.begin.names.method}): the ${count(guesses)} guesses that
    stood where the walk came by, ${count(step.path?.length ?? 0)} of them accepted.`);
  const figure = make("div", "tree");
  figure.tabIndex = 0;
  figure.setAttribute("role", "region");
  figure.setAttribute("aria-label", "The places that the walk reached");
  figure.append(tokenTree(factsOf(step), step, words, names));
  chapter.figure = figure;
  if (own) {
    chapter.pointer = {
      name: "Show this step",
      selector: "#stage-race [data-id=inside]",
      prepare: (view) => view.links.look(index),
    };
  }
  return chapter;
}

/**
 * Nodes after which the model looked for a draft; none after the answer's last token.
 * @param {Step} step
 */
function lookedAfter(step) {
  const { path } = factsOf(step);
  return [0, ...(bonusOf(step) === undefined ? path.slice(0, -1) : path)];
}

/**
 * Places that the walk reached, by which of their drafts was accepted.
 * @param {readonly Step[]} steps
 */
export function draftsTaken(steps) {
  const taken = { first: 0, second: 0, neither: 0 };
  for (const step of steps) {
    const { tree, path } = factsOf(step);
    for (const node of lookedAfter(step)) {
      const drafts = [...tree.parents.keys()].filter((child) => tree.parents[child] === node);
      if (!drafts.length) continue;
      const place = drafts.findIndex((child) => path.includes(child));
      if (place < 0) taken.neither += 1;
      else if (place === 0) taken.first += 1;
      else taken.second += 1;
    }
  }
  return taken;
}

/**
 * @param {Turn | null} race one that is over
 * @param {Turn | null} recorded one with draft trees
 * @returns {Chapter}
 */
export function hub(race, recorded) {
  const turn = race?.begin.lanes.method === HUB ? race : recorded;
  /** @type {Chapter} */
  const chapter = {
    title: "SpecHub: a pair of drafts, one always the likeliest",
    text: [
      prose`With two drafts a place, the best way to accept is a linear program as large as all pairs of tokens. SpecHub
        only drafts pairs that hold the draft's likeliest token a. Then the program has a solution in closed form:
        whatever chance the first draft leaves over goes to a, which is accepted with exactly its own chance p(a).`,
      prose`Where the model has a draft model, SpecHub, and RRS or RRSw to compare it with, can be ticked in Compare;
        set the temperature to 1.`,
    ],
  };
  if (turn) {
    const { first, second, neither } = draftsTaken(turn.lanes.method.steps);
    const all = first + second + neither;
    const from = turn === race ? whose(turn) : "a recorded race by SpecHub";
    chapter.text.push(prose`In ${from} the model looked at ${plural(all, "place")} with drafts and took one of them at
      ${percent((first + second) / Math.max(all, 1))}:`);
    chapter.figure = bars([
      { name: "the first draft", length: first, label: String(first) },
      { name: "the second", length: second, label: String(second) },
      { name: "neither", length: neither, label: String(neither) },
    ]);
  }
  return chapter;
}
