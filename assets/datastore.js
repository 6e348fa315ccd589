// The Datastore tab: the card of each store, the perplexities its texts were chosen by, and what follows a few words.
import { Fields } from "./fields.js";
import { count, make, percent, plural, visible } from "./format.js";

const NONE = `No datastore fits this model. Build one with “python -m spectra.datastore build”; its folder under datastores/ is found at the next start.`;

export function mount({ element, props, watch, facts }) {
  const view = new Datastore(element.querySelector(".stage"), facts.stores);
  watch("value", () => view.take(JSON.parse(props.value)));
}

class Datastore {
  constructor(stage, stores) {
    this.stage = stage;
    stage.dataset.state = stores.length ? "done" : "empty";
    if (!stores.length) return void stage.append(make("p", "hero-hint", NONE));
    this.fields = new Fields(document.getElementById("store-ask"), "store-");
    this.answers = make("section", "card answers");
    this.answers.hidden = true;
    this.status = make("p", "unseen");
    this.status.setAttribute("role", "status");
    stage.append(this.answers, ...stores.map(card), this.status);
  }

  take(message) {
    if (message.kind === "refused") return this.fields.refuse(message.field, message.text);
    this.fields.clear();
    const { rows, store } = message;
    const head = make("h2", "", `What ${store} knows to follow`);
    const said = rows.length
      ? `Likeliest first. The longest end of your words that it has seen is ${plural(Math.max(...rows.map((row) => row.match)), "token")} long.`
      : "It has not seen these words, nor any end of them.";
    const list = make("ol");
    for (const { text, chance, count: times } of rows) {
      const row = make("li");
      const bar = make("span", "chance");
      const fill = make("i");
      fill.style.width = `${100 * chance}%`;
      bar.append(fill);
      row.append(bar, make("b", "", percent(chance)), make("code", "", visible(text)), make("small", "", `seen ${plural(times, "time")}`));
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
  const lost = Object.entries(dropped).filter(([, n]) => n).map(([why, n]) => `${count(n)} ${why}`).join(", ");
  const rows = [
    ["Texts", `${count(kept.texts)} of ${count(seen?.texts ?? kept.texts)} kept${lost ? `; left out: ${lost}` : ""}`],
    ["Tokens", count(kept.tokens)],
    ["Index", `${count(index.contexts)} contexts of up to ${plural(index.order, "token")}`],
    ["Size", `${(facts.bytes / 1e6).toFixed(1)} MB`],
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
  const total = (numbers) => numbers.reduce((sum, n) => sum + n, 0);
  bars.setAttribute("role", "img");
  bars.setAttribute("aria-label", `Histogram of perplexities: ${count(total(kept))} of ${count(total(scored))} texts kept, cut off at ${cutoff.toFixed(2)}`);
  const ends = make("div", "ends");
  ends.append(make("span", "", edges[first].toFixed(1)), make("span", "", "perplexity of the text"), make("span", "", edges[last + 1].toFixed(1)));
  figure.append(make("figcaption", "", `Kept: the texts that surprise the model least, up to a perplexity of ${cutoff.toFixed(2)} (the line).`), bars, ends);
  return figure;
}
