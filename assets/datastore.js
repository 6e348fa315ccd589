// The Datastore tab: the card of each store, the perplexities its texts were chosen by, and what follows a few words.
import { Fields } from "./fields.js";
import { count, make, percent, plural, visible } from "./format.js";

const NONE = `No datastore fits this model. Build one with “python -m spectra.datastore build”; its folder under datastores/ is found at the next start.`;
const WHY = {
  duplicate: "duplicates", similar: "near duplicates", short: "too short", repetitive: "repeating themselves", bad: "unreadable",
  filtered: "of other kinds", excluded: "answers to the benchmarks' prompts", unscored: "not scored",
};
const STEPS = {
  reading: "Reading your text and leaving out what repeats",
  scoring: "The model reads each text once, to see which surprise it least",
  opening: "Putting the index in place",
};

export function mount({ element, props, watch, facts, ask }) {
  const view = new Datastore(element.querySelector(".stage"), facts.stores, ask);
  watch("value", () => view.take(JSON.parse(props.value)));
}

class Datastore {
  constructor(stage, stores, ask) {
    Object.assign(this, { stage, ask });
    stage.dataset.state = stores.length ? "done" : "empty";
    this.own = make("section", "own-store");
    this.owned = new Fields(document.getElementById("own-ask"), "own-");
    document.querySelector("#own-ask input[type=file]")?.setAttribute("aria-label", "Text file to build a datastore from");
    this.fields = new Fields(document.getElementById("store-ask"), "store-");
    this.answers = make("section", "card answers");
    this.answers.hidden = true;
    this.status = make("p", "unseen");
    this.status.setAttribute("role", "status");
    const none = stores.length ? [] : [make("p", "hero-hint", NONE)];
    stage.append(this.answers, this.own, ...none, ...stores.map(card), this.status);
  }

  take(message) {
    if (message.kind === "refused") return this.refused(message);
    this.fields.clear();
    this.owned.clear();
    if (message.kind === "answers") this.answer(message);
    else this.build(message);
  }

  refused({ field, text }) {
    if (["file", "keep", "go", ""].includes(field)) {
      this.own.querySelector(".progress")?.remove();
      return this.owned.refuse(field, text);
    }
    this.fields.refuse(field, text);
  }

  // One's own store: how far its build is, then its card, then nothing again.
  build({ kind, ahead, what, done, total, card: facts }) {
    this.stage.dataset.building = kind;
    if (kind === "removed" || kind === "halted") {
      if (kind === "removed") this.own.replaceChildren();
      this.own.querySelector(".progress")?.remove();
      return void (this.status.textContent = kind === "removed" ? "Your datastore is deleted" : "Stopped; nothing was built");
    }
    if (kind === "built") {
      const box = card(facts);
      const remove = make("button", "quiet", "Delete it");
      remove.type = "button";
      remove.addEventListener("click", () => this.ask("remove"));
      const note = make("p", "yours", "Yours alone. Race, Chat and Compare guess from it too. ");
      note.append(remove);
      box.firstElementChild.append(note);
      this.own.replaceChildren(box);
      return void (this.status.textContent = `${facts.name} is built: ${plural(facts.kept.texts, "text")}`);
    }
    let bar = this.own.querySelector(".progress");
    if (!bar) {
      bar = make("p", "card progress");
      bar.append(make("span"), make("progress"));
      bar.lastElementChild.setAttribute("aria-label", "How far the build is");
      this.own.prepend(bar);
    }
    const text = kind === "queued" ? `Waiting for the model: ${plural(ahead, "visitor")} before you` : STEPS[what] ?? what;
    if (bar.firstElementChild.textContent !== text) this.status.textContent = bar.firstElementChild.textContent = text;
    if (kind === "building" && total) Object.assign(bar.lastElementChild, { max: total, value: Math.min(done, total) });
  }

  answer(message) {
    const { rows, store } = message;
    const head = make("h2", "", `What “${store}” expects next`);
    const said = rows.length
      ? "Likeliest first. A match is what came before in both texts: the longer, the surer. · is a space, ↵ a line end."
      : "It has not seen these words, nor any end of them.";
    const list = make("ol");
    for (const { text, chance, count: times, match } of rows) {
      const row = make("li");
      const bar = make("span", "chance");
      const fill = make("i");
      fill.style.width = `${100 * chance}%`;
      bar.append(fill);
      row.append(bar, make("b", "", percent(chance)), make("code", "", visible(text)), make("small", "", `seen ${plural(times, "time")}, a match of ${plural(match, "token")}`));
      list.append(row);
    }
    this.answers.replaceChildren(head, make("p", "", said), list);
    this.answers.hidden = false;
    this.status.textContent = plural(rows.length, "continuation");
  }
}

function card(facts) {
  const box = make("section", "card store");
  const { kept, seen, index, perplexity, dropped = {} } = facts;
  const how = facts.refined ? "the texts of lowest perplexity under the model" : "a random sample of texts";
  const lost = Object.entries(dropped).filter(([, n]) => n).map(([why, n]) => `${count(n)} ${WHY[why] ?? why}`).join(", ");
  const rows = [
    ["Texts", `${count(kept.texts)} of ${count(seen?.texts ?? kept.texts)} kept`],
    ["Left out", lost],
    ["Tokens", count(kept.tokens)],
    ["Index", `${count(index.contexts)} contexts of up to ${plural(index.order, "token")}`],
    ["Size", facts.bytes < 1e5 ? `${Math.ceil(facts.bytes / 1000)} KB` : `${(facts.bytes / 1e6).toFixed(1)} MB`],
    ["From", (facts.corpus ?? []).map(({ name }) => name).join(", ")],
    ["Licence", facts.licence],
  ];
  const list = make("dl");
  for (const [name, value] of rows) if (value) list.append(make("dt", "", name), make("dd", "", String(value)));
  const words = make("div");
  words.append(make("h2", "", facts.name), make("p", "", `For ${facts.model}: ${how}.`), list);
  box.append(words);
  if (facts.refined && perplexity) box.append(histogram(perplexity));
  return box;
}

// A bar for each bin of the perplexities: what was kept in front of all that was scored, and the cut-off between them.
function histogram({ edges, scored, kept, cutoff }) {
  const figure = make("figure", "perplexity");
  const used = scored.map((n, i) => (n ? i : -1)).filter((i) => i >= 0);
  const [first, last] = [used[0], used.at(-1)];
  const most = Math.max(...scored);
  const bars = make("div", "bins");
  let marked = false;
  for (let i = first; i <= last; i++) {
    const bin = make("span");
    const [all, some] = [make("i"), make("b")];
    all.style.height = `${(100 * scored[i]) / most}%`;
    some.style.height = `${(100 * kept[i]) / most}%`;
    bin.title = `perplexity ${edges[i].toFixed(1)} to ${edges[i + 1].toFixed(1)}: ${count(kept[i])} of ${count(scored[i])} kept`;
    if (!marked && edges[i + 1] > cutoff) {
      bin.className = "cut";
      bin.style.setProperty("--at", `${(100 * Math.max(0, cutoff - edges[i])) / (edges[i + 1] - edges[i])}%`);
      marked = true;
    }
    bin.append(all, some);
    bars.append(bin);
  }
  figure.style.setProperty("--bins", last - first + 1);
  const total = (numbers) => numbers.reduce((sum, n) => sum + n, 0);
  bars.setAttribute("role", "img");
  bars.setAttribute("aria-label", `Histogram of perplexities: ${count(total(kept))} of ${count(total(scored))} texts kept, cut off at ${cutoff.toFixed(2)}`);
  const ends = make("div", "ends");
  ends.append(make("span", "", edges[first].toFixed(1)), make("span", "", "perplexity of the text, log scale"), make("span", "", edges[last + 1].toFixed(1)));
  figure.append(make("figcaption", "", `Kept: the texts that surprise the model least, up to a perplexity of ${cutoff.toFixed(2)} (the line).`), bars, ends);
  return figure;
}
