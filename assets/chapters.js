// What the chapters of the tour say. Every figure and every quoted token is read off the race or was measured here.
import { list, make, milliseconds, plural, ratio, visible } from "./format.js";
import { sample } from "./sample.js";

const EARLY = 8;
const flat = (text) => visible(text.replace(/\s+/g, " ").trim()).replaceAll("·", " ");

export function chapters(facts, race) {
  return [cost(facts, race), accepted(facts, race), rejected(facts, race), unchanged(race), temperature(race), precision(facts, race)];
}

function cost({ cost: table }, race) {
  const seconds = (q) => {
    const next = table.findIndex(([n]) => n >= q);
    if (next < 1) return next === 0 ? table[0][1] : table.at(-1)[1];
    const [[n0, t0], [n1, t1]] = [table[next - 1], table[next]];
    return t0 + ((t1 - t0) * (q - n0)) / (n1 - n0);
  };
  const [one, eight] = [seconds(1), seconds(8)];
  const text = [
    "To write one token, the processor has to fetch every weight of the model from memory. That takes most of the time; the arithmetic itself is quick. Once the weights are there, a few more tokens can be computed with them almost for free.",
    `Measured on this machine: a forward pass over 1 token takes ${milliseconds(one)}, over 8 tokens ${milliseconds(eight)}. That is ${ratio(eight / one)} times as long for 8 times the tokens. ${eight < 3 * one ? "Speculative decoding lives on this gap." : "Arithmetic is slow here, so the budget guesses less than it would on another processor."}`,
  ];
  return { title: "Why eight tokens cost little more than one", text, figure: table.length ? bars(table) : null,
    show: race && { name: "Show the forward passes", find: "#stage-race [data-id=figures]", before: (show) => show.turn("passes") } };
}

function bars(table) {
  const figure = make("dl", "costs");
  const shown = table.filter(([n]) => n <= 64);
  const most = Math.max(...shown.map(([, t]) => t));
  for (const [n, t] of shown) {
    const bar = make("dd");
    const fill = make("i");
    fill.style.width = `${(100 * t) / most}%`;
    bar.append(fill, make("span", "", milliseconds(t)));
    figure.append(make("dt", "", plural(n, "token")), bar);
  }
  return figure;
}

// The step that gained most, and an early one whose guesses all failed.
const best = ({ steps }) => steps.reduce((top, step, i) => ((step.path?.length ?? 0) > (steps[top].path?.length ?? 0) ? i : top), 0);
const wrong = (step) => step.tree && !step.path?.length && step.tree.tokens.length > 1 + step.tree.pool.length;
const missed = ({ steps }) => {
  const later = steps.findIndex((step, i) => i >= EARLY && wrong(step)); // the first guesses of an answer are odd ones
  return later < 0 ? steps.findIndex(wrong) : later;
};

function context(lane, step) {
  const before = lane.text.slice(0, lane.starts[step]).trimEnd().split(/\s+/).slice(-6).join(" ");
  return before ? `after “… ${before}”` : "at the start of the answer";
}

const SPOKEN = { retrieval: "a datastore", ngram: "an n-gram of the text", recycled: "what was likely here before", automaton: "the suffix automaton" };

function names(facts, tree, nodes) {
  const used = new Set(nodes.map((node) => tree.sources[node].split(",")[0]));
  return list(facts.legend.filter(({ source }) => used.has(source)).map(({ source, name }) => SPOKEN[source] ?? `the ${name.toLowerCase()}`));
}

const open = (step) => ({ find: "#stage-race [data-id=inside]", before: (show) => show.links.look(step) });

function accepted(facts, race) {
  const chapter = { title: "A guess that was right", text: ["While the answer grows, dictionaries collect which tokens followed which. Before each forward pass they guess what comes next, and the model checks all guesses in that one pass."] };
  const lane = race?.lanes.method;
  const step = lane ? best(lane) : -1;
  const facts1 = lane?.steps[step];
  if (!facts1?.path?.length) return { ...chapter, text: [...chapter.text, "Here an accepted guess of your race is shown, once there is one."] };
  const words = facts1.path.map((node) => race.links.words[facts1.tree.tokens[node]] ?? "").join("");
  chapter.text.push(
    `In step ${step + 1}, ${context(lane, step)}, ${names(facts, facts1.tree, facts1.path)} guessed “${flat(words)}”. The model, asked at each of these places, picked the very same: ${plural(facts1.path.length, "guess", "guesses")} accepted, and one token of its own on top. ${plural(facts1.sources.length, "token")} for one pass.`,
  );
  return { ...chapter, figure: sample(lane, step, race.links.words, facts1.path), show: { name: "Show this step", ...open(step) } };
}

function rejected(facts, race) {
  const chapter = { title: "A guess that was wrong", text: [] };
  const lane = race?.lanes.method;
  const step = lane ? missed(lane) : -1;
  if (step < 0) return { ...chapter, text: ["A wrong guess is thrown away, and the model's own pick is written instead. The pass was not wasted: it gave the one token that plain decoding would have given."] };
  const { tree, picks } = lane.steps[step];
  const word = (token) => `“${flat(race.links.words[token] ?? "")}”`;
  const guesses = tree.tokens.map((_, node) => node).filter((node) => node && tree.parents[node] === 0 && !tree.pool.includes(node));
  chapter.text.push(
    `In step ${step + 1}, ${context(lane, step)}, ${names(facts, tree, guesses)} guessed ${list(guesses.slice(0, 3).map((node) => word(tree.tokens[node])))}. The model picked ${word(picks[0])}.`,
    "So the guess was thrown away and the pick was written. A wrong guess never reaches the text; all it costs is a slightly wider pass, and the budget stops guessing where that does not pay.",
  );
  return { ...chapter, figure: sample(lane, step, race.links.words, guesses.slice(0, 3)), show: { name: "Show this step", ...open(step) } };
}

function unchanged(race) {
  const same = race?.figures?.differs === null && race?.figures?.whole;
  return {
    title: "Why the text does not change",
    text: [
      "The guesses decide nothing. At every place the model picks its own next token from everything before it, just as in plain decoding; a guess only lets that pick be computed earlier. Where guess and pick agree, the walk goes on. Where they do not, it ends, and everything behind the wrong guess is dropped.",
      same ? `Here both answers were compared token by token: all ${plural(race.figures.plain.tokens, "token")} are the same.` : "The badge under the bars says whether both answers are the same, token by token.",
    ],
    show: race && { name: "Show the badge", find: "#stage-race .below" },
  };
}

function temperature(race) {
  return {
    title: "What happens at temperature 1",
    text: [
      "With a temperature above 0 the model does not take its likeliest token but draws one by lot. The draw at each position uses random numbers that depend only on the seed and the position. So the same seed draws the same token whether it was guessed or not, and the text is still the same.",
      "Guesses are right less often, though: a draw is harder to foresee than the likeliest token. Set the temperature to 1 and race again, and watch the tokens per pass go down while the badge stays.",
    ],
    show: race && { name: "Show the setting", find: "#field-temperature" },
  };
}

function precision({ badges }, race) {
  return {
    title: "Why half precision needs care",
    text: [
      "Numbers of 16 bits are rounded hard, and rounding depends on the order of additions. A processor adds in another order for eight tokens than for one, so the same model can score two close candidates the other way round, and the text takes another turn. Many systems accept that.",
      `Here a pass over a tree is computed so that each token gets exactly the bits that it gets alone (“exact”); the two lanes can then be compared token for token. This page runs in ${badges.at(-1)}.`,
    ],
    show: race && { name: "Show where it says so", find: ".top .badges" },
  };
}
