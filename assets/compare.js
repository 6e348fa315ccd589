// The Compare tab: a row for every method, filled as its turn comes, two charts, and files to take away.
import { CompareCharts } from "./comparecharts.js";
import { Fields } from "./fields.js";
import { count, make, percent, plural, ratio, seconds, speed } from "./format.js";
import { save } from "./save.js";

const CHARTS_EVERY = 700;
const COLUMNS = [
  ["Method", (row) => row.name],
  ["Tokens/s", (row) => speed(row.rate)],
  ["Speedup", (row) => (row.speedup ? `${ratio(row.speedup)}×` : "")],
  ["Tokens a pass (τ)", (row) => ratio(row.tau)],
  ["Passes", (row) => count(row.passes)],
  ["Guesses accepted", (row) => (row.acceptance === null || row.acceptance === undefined ? "–" : percent(row.acceptance))],
  ["Output", (row) => (!row.ended ? "…" : row.differs === null ? "identical" : row.drawn ? "another draw" : `differs at ${count(row.differs + 1)}`)],
];
const HINT = "Tick some methods and press Compare. They run one after the other, plain decoding first, so that none slows another, and every answer is compared with plain decoding's, token by token.";
const BODY = `
<section class="card table" data-id="table-card" hidden><div class="wide" tabindex="0" role="region" aria-label="Figures of every method"><table><thead></thead><tbody></tbody></table></div>
<p class="end"><span data-id="note"></span><span class="actions"><button type="button" class="quiet" data-id="csv">CSV</button><button type="button" class="quiet" data-id="json">JSON</button><button type="button" class="quiet" data-id="png">PNG</button></span></p></section>
<section class="figures" data-id="figures" hidden>
<article class="card figure"><h2>Tokens a second</h2><p>With the time to read the prompt. The dashed line is plain decoding.</p><div class="plot" data-id="bars"></div></article>
<article class="card figure"><h2>Tokens over time</h2><p>Every method on one clock.</p><div class="plot" data-id="lines"></div></article></section>
<p class="hero-hint" data-id="hint">${HINT}</p>
<p class="unseen" role="status" data-id="status"></p>`;

export function mount({ element, props, watch, facts, ask }) {
  const compare = new Compare(element.querySelector(".stage"), facts, ask);
  watch("value", () => compare.take(JSON.parse(props.value)));
  element.compare = compare;
}

class Compare {
  constructor(stage, facts, ask) {
    Object.assign(this, { stage, facts, ask, state: "empty", rows: [], lanes: {} });
    stage.innerHTML = BODY;
    const found = new Map([...stage.querySelectorAll("[data-id]")].map((node) => [node.dataset.id, node]));
    this.at = (id) => found.get(id);
    this.fields = new Fields(document.getElementById("compare-ask"), "compare-");
    this.fields.tell(facts.examples);
    this.charts = new CompareCharts(this.at("bars"), this.at("lines"));
    const head = make("tr");
    head.append(...COLUMNS.map(([name]) => Object.assign(make("th", "", name), { scope: "col" })));
    stage.querySelector("thead").append(head);
    stage.dataset.state = this.state;
    this.at("csv").addEventListener("click", () => save("spectra-comparison.csv", this.csv(), "text/csv"));
    this.at("json").addEventListener("click", () => ask("download"));
    this.at("png").addEventListener("click", () => this.charts.picture().then((blob) => save("spectra-comparison.png", blob)));
    document.getElementById("compare-go").addEventListener("click", () => this.fields.clear());
    new MutationObserver(() => this.draw()).observe(document.body, { attributeFilter: ["class"] });
    new ResizeObserver(() => this.draw()).observe(this.at("bars"));
  }

  take(message) {
    const { kind } = message;
    if (kind === "refused") return this.fields.refuse(message.field, message.text);
    if (kind === "file") return save(message.name, message.text);
    if (kind === "waiting") return this.note(`Waiting for the model: ${plural(message.ahead, "visitor")} before you.`);
    if (kind === "left") return this.state === "empty" ? (this.at("hint").textContent = HINT) : this.show();
    if (kind === "begin") return this.begin(message);
    if (kind === "snapshot") {
      this.begin(message.begin);
      this.delta(message);
      return message.end && this.end({ ...message.end, rows: message.rows });
    }
    if (message.run !== this.run || this.missed(message)) return this.ask("resync");
    return kind === "delta" ? this.delta(message) : this.end(message);
  }

  missed({ from, counts }) {
    return Object.entries(this.lanes).some(([name, lane]) =>
      from ? from[name] > lane.totals.length - 1 : counts[name] !== lane.totals.length - 1);
  }

  begin({ run, lanes, cap }) {
    this.fields.clear();
    Object.assign(this, { run, cap, rows: [], state: "running" });
    Object.assign(this.stage.dataset, { run, state: this.state });
    this.lanes = Object.fromEntries(lanes.map((name) => [name, { ends: [0], totals: [0], started: 0 }]));
    this.at("hint").hidden = true;
    this.at("table-card").hidden = this.at("figures").hidden = false;
    for (const id of ["csv", "json", "png"]) this.at(id).disabled = true;
    this.show();
  }

  delta({ from, lanes, rows }) {
    for (const [name, lane] of Object.entries(this.lanes)) {
      for (const step of lanes[name].slice(lane.totals.length - 1 - from[name])) {
        if (step.prefill) lane.ends[0] = step.prefill;
        lane.ends.push(lane.ends.at(-1) + step.seconds);
        lane.totals.push(lane.totals.at(-1) + step.sources.length);
      }
    }
    this.rows = rows;
    this.show();
  }

  end({ state, problem, rows }) {
    this.rows = rows;
    this.stage.dataset.state = this.state = state;
    if (problem) this.fields.refuse(problem.field, problem.text);
    for (const id of ["csv", "json", "png"]) this.at(id).disabled = !rows.length;
    this.show();
    const best = rows.filter((row) => row.speedup).reduce((a, b) => (b.speedup > (a?.speedup ?? 0) ? b : a), null);
    this.at("status").textContent = best ? `Fastest: ${best.name}, ${ratio(best.speedup)} times plain decoding` : "Stopped";
  }

  // A finished method's figures are the server's; those of the one that is running are read off its steps.
  row(method) {
    const ended = this.rows.find((row) => row.method === method);
    if (ended) return { ...ended, ended: true };
    const { ends, totals } = this.lanes[method];
    const passes = totals.length - 1;
    return { name: this.facts.names[method] ?? method, method, passes, ended: false, tokens: totals.at(-1),
      rate: ends.at(-1) ? totals.at(-1) / ends.at(-1) : 0, tau: passes ? totals.at(-1) / passes : 0, differs: null };
  }

  show() {
    const running = Object.keys(this.lanes).find((name) => !this.rows.some((row) => row.method === name));
    const best = Math.max(...this.rows.map((row) => row.speedup ?? 0));
    const body = Object.keys(this.lanes).map((name) => {
      const row = this.row(name);
      const line = make("tr", row.ended ? "" : row.passes ? "now" : "later");
      line.dataset.method = name;
      line.title = this.facts.methods[name] ?? "";
      COLUMNS.forEach(([, text], i) => {
        const cell = make(i ? "td" : "th", "", i && !row.passes ? "" : text(row));
        if (!i) cell.scope = "row";
        if (i === 2 && this.rows.length > 1 && row.speedup === best) cell.className = "best";
        if (i === 6 && row.ended) cell.className = row.differs === null ? "same" : row.drawn ? "" : "differs";
        line.append(cell);
      });
      return line;
    });
    this.stage.querySelector("tbody").replaceChildren(...body);
    if (this.state === "running") {
      const tokens = running ? this.lanes[running].totals.at(-1) : 0;
      this.note(running ? `${this.facts.names[running] ?? running}: ${plural(tokens, "token")} so far` : "");
    } else {
      const total = Object.values(this.lanes).reduce((sum, lane) => sum + lane.ends.at(-1), 0);
      const word = { stopped: "Stopped. ", failed: "Ended early. " }[this.state] ?? "";
      this.note(`${word}${plural(this.rows.length, "method")}, ${seconds(total)} of decoding, one after the other.`);
    }
    this.draw();
  }

  note(text) {
    this.at("note").textContent = text;
    if (this.at("table-card").hidden && text) this.at("hint").textContent = text;
  }

  draw() {
    if (this.at("figures").hidden || !this.at("bars").clientWidth) return;
    if (this.drawing) return void (this.again = true);
    this.drawing = true;
    this.again = false;
    const rows = Object.keys(this.lanes).map((name) => this.row(name));
    this.charts.draw(rows, this.lanes).catch((error) => this.note(error.message)).finally(() =>
      setTimeout(() => {
        this.drawing = false;
        if (this.again) this.draw();
      }, this.state === "running" ? CHARTS_EVERY : 0));
  }

  csv() {
    const names = ["method", "tokens", "seconds", "rate", "speedup", "tau", "passes", "acceptance", "differs", "drawn"];
    const cell = (value) => (value === null || value === undefined ? "" : String(value));
    return [names.join(","), ...this.rows.map((row) => names.map((name) => cell(row[name])).join(","))].join("\n") + "\n";
  }
}
