// The panel about one step: its token tree as SVG and, in words, why it went as it did.
import { brief, count, list, make, milliseconds, plural, sentence, shape, visible } from "./format.js";
import { mask } from "./mask.js";

const ROW = 34;
const HIGH = 26;
const GAP = 18;
const CONTEXT = 90;

export class Inside {
  constructor(at, looks) {
    this.at = at; // elements by id
    this.names = new Map(looks.map((look) => [look.source, look.name]));
    at("mask").addEventListener("toggle", () => this.showMask());
  }

  // step: index. words: text by token id.
  show(lane, step, words) {
    const { at } = this;
    const facts = lane.steps[step];
    const tree = facts.tree ?? { tokens: [0], parents: [-1], sources: ["model"], chances: null, rows: [0], pool: [] };
    const path = facts.path ?? [];
    const pool = new Set(tree.pool);
    const guesses = tree.tokens.map((_, node) => node).filter((node) => node > 0 && !pool.has(node));
    at("step-at").textContent = `${count(step + 1)} of ${count(lane.steps.length)}`;
    at("step-line").textContent = `${plural(guesses.length, "guess", "guesses")}, one forward pass, ${plural(facts.sources.length, "token")}. Drag to any step.`;
    at("tree").replaceChildren(this.draw(tree, path, pool, facts.picks, words));
    this.explain(lane, step, facts, { guesses, path, pool, tree, words });
    this.seen = { tree, path, words };
    this.showMask();
  }

  // Drawn only while it is open: it is as high as the tree has nodes.
  showMask() {
    if (this.seen && this.at("mask").open) this.at("sees").replaceChildren(mask(this.seen));
  }

  draw(tree, path, pool, picks, words) {
    const nodes = tree.tokens.map((token, node) => ({
      node,
      text: words[token] ?? `#${token}`,
      depth: 0,
      row: tree.rows[node],
      parent: tree.parents[node],
      source: tree.sources[node].split(",")[0],
      sources: tree.sources[node].split(","),
      chance: tree.chances?.[node] ?? null,
      kind: node === 0 ? "root" : pool.has(node) ? "pool" : path.includes(node) ? "yes" : "no",
    }));
    for (const each of nodes.slice(1)) each.depth = nodes[each.parent].depth + 1;
    const shown = nodes.filter((each) => each.kind !== "pool");
    const last = path.at(-1) ?? 0;
    const bonus = picks[path.length];
    if (bonus !== undefined)
      shown.push({
        text: words[bonus] ?? `#${bonus}`,
        depth: nodes[last].depth + 1,
        row: nodes[last].row,
        parent: last,
        source: "model",
        sources: ["model"],
        chance: null,
        kind: "pick",
      });
    const rows = new Map([...new Set(shown.map((each) => each.row))].sort((a, b) => a - b).map((row, i) => [row, i]));
    const lefts = columns(shown);
    const place = (each) => ({ x: lefts[each.depth], y: 4 + rows.get(each.row) * ROW, w: width(each) });
    const svg = shape("svg", { width: lefts.at(-1), height: rows.size * ROW + 4, "aria-hidden": "true" });
    const onPath = (each) => each.kind === "yes" || each.kind === "pick";
    for (const each of [...shown].sort((a, b) => onPath(a) - onPath(b))) {
      if (each.parent < 0) continue;
      const a = place(nodes[each.parent]);
      const b = place(each);
      const [x0, y0, x1, y1] = [a.x + a.w, a.y + HIGH / 2, b.x, b.y + HIGH / 2];
      const bend = lefts[each.depth] - GAP / 2;
      const d = `M${x0} ${y0}H${bend - 5}C${bend + 3} ${y0} ${bend - 5} ${y1} ${x1} ${y1}`;
      svg.append(shape("path", { d, class: `edge ${each.kind}` }));
    }
    for (const each of shown) svg.append(this.box(each, place(each)));
    return svg;
  }

  box(each, { x, y, w }) {
    const group = shape("g", { class: `node ${each.kind} ${each.source}`, transform: `translate(${x} ${y})` });
    group.append(shape("rect", { width: w, height: HIGH, rx: 6 }));
    const label = shape("text", { x: 9, y: 17 });
    label.textContent = brief(each.text);
    group.append(label);
    if (each.chance !== null) {
      const chance = shape("text", { x: w - 7, y: 17, class: "chance", "text-anchor": "end" });
      chance.textContent = each.chance.toFixed(2);
      group.append(chance);
    }
    const who = each.sources.map((source) => this.names.get(source)).join(", ");
    const title = shape("title");
    const fate = { root: "the last token so far", yes: "accepted", no: "not accepted", pick: "the model's own pick" }[each.kind];
    title.textContent = `${visible(each.text)}: ${fate}${each.kind === "yes" || each.kind === "no" ? `, from ${who}` : ""}`;
    group.append(title);
    return group;
  }

  explain(lane, step, facts, { guesses, path, pool, tree, words }) {
    const { at } = this;
    const before = lane.text.slice(0, lane.starts[step]);
    at("context").textContent = (before.length > CONTEXT ? "… " : "") + before.slice(-CONTEXT);
    const kept = Math.min(path.length, facts.sources.length);
    at("gist").textContent =
      `${plural(kept, "guess", "guesses")} accepted, ${plural(facts.sources.length - kept, "token")} from the model.`;
    const asked = new Set(guesses.flatMap((node) => tree.sources[node].split(",")));
    const names = [...this.names].filter(([source]) => asked.has(source)).map(([, name]) => name.toLowerCase());
    const quote = (token) => `“${visible(words[token] ?? `#${token}`)}”`;
    const bonus = facts.picks[path.length];
    const leaf = path.at(-1) ?? 0;
    const followed = tree.parents.some((parent, node) => parent === leaf && node > 0 && !pool.has(node));
    const offered = Math.max(facts.offered ?? 0, guesses.length);
    const reasons = [];
    const known = Object.entries(facts.held ?? {}).filter(([source]) => this.names.has(source));
    if (known.length) reasons.push(`N-grams held by then: ${list(known.map(([source, size]) => `${count(size)} in the ${this.names.get(source).toLowerCase()}`))}.`);
    if (!guesses.length) reasons.push(`${offered ? `None of ${plural(offered, "known guess", "known guesses")} was worth its time` : "Nothing was known that might follow"} here, so this was a plain step.`);
    else reasons.push(`${sentence(list(names))} offered ${plural(offered, "token")}, merged into one tree${offered > guesses.length ? `; the ${count(guesses.length)} likeliest to pay were kept` : ""}.`);
    reasons.push(`One forward pass scored ${guesses.length ? "all of them" : "the last token"}, ${milliseconds(facts.seconds)} for the whole step.`);
    if (path.length) reasons.push(`From the left, the model picked its own next token at each node; ${path.length === 1 ? "one pick was" : `${count(path.length)} picks were`} in the tree, so the walk went on.`);
    if (bonus !== undefined && guesses.length)
      reasons.push(followed
        ? `${path.length ? "Then it" : "The model"} picked ${quote(bonus)}, which no branch had. That pick was written, so the pass still gained a token.`
        : `There the branch ended. The pick ${quote(bonus)} came on top, free.`);
    if (facts.finish) reasons.push({ eos: "The model ended its answer here.", length: "The answer reached its length limit here." }[facts.finish] ?? "The answer ended here.");
    if (pool.size) reasons.push(`${plural(pool.size, "more token was", "more tokens were")} scored only to refresh the candidate pool, not as guesses.`);
    at("reasons").replaceChildren(...reasons.map((text) => make("li", "", text)));
  }
}

const width = (each) => 18 + 7.3 * brief(each.text).length + (each.chance !== null ? 34 : 0);

function columns(nodes) {
  const lefts = [2];
  const deepest = Math.max(...nodes.map((each) => each.depth));
  for (let depth = 0; depth <= deepest; depth++)
    lefts.push(lefts[depth] + Math.max(...nodes.filter((each) => each.depth === depth).map(width)) + GAP);
  return lefts;
}
