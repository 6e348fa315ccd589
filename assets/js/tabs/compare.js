/** The Compare tab: a row for every method, filled as its turn comes, two charts, and files to take away. */

import { CompareCharts } from "../charts/compare-charts.js";
import { drawnIn } from "../charts/plotly.js";
import { byId, fill, find, replace, write } from "../common/dom.js";
import { Fields } from "../common/fields.js";
import { building, list, plural, prose, ratio, seconds, sentence } from "../common/format.js";
import { oneClick } from "../common/one-click.js";
import { save } from "../common/save.js";
import { handOver } from "../common/steady-focus.js";
import { Throttle } from "../common/throttle.js";
import { csvOf, cutsOf, headRow, liveRow, tableRow } from "../compare/table.js";
import { keepCutOff, leaveWord, stored, takeCutOff, WAITED } from "../race/cut-off.js";
import { PLAIN } from "../stream/lane.js";
import { EMPTY, reduce } from "../stream/reducer.js";

/** @import { AxisName } from "../charts/race-figures.js" */
/** @import { Ask, Host, Methods } from "../common/tab.js" */
/** @import { BriefStep, Building, ComparedRow, End, FileMessage, Left } from "../stream/messages.js" */
/** @import { Refused, RunMessage, Waiting } from "../stream/messages.js" */
/** @import { Stream, Turn } from "../stream/reducer.js" */

const CHARTS_EVERY = 4000; // ms between two drawings while a method is measured; when it is over they are drawn too
const FILES = ["csv", "json", "png"];
/** @type {Record<string, string>} */
const CUT_SHORT = { stopped: "Stopped. ", failed: "Ended early. " };
const HINT = prose`Tick some methods and press Compare. They run one after the other, plain decoding first, so that
  none slows another, and every answer is compared with plain decoding's, token by token.`;
const CUT_OFF = prose`The page was left or lost its connection while methods ran, so that comparison has ended.`;
const GIVEN_UP = prose`The page was left or lost its connection while a comparison waited for its turn, which is
  given up.`;
const TEMPLATE = `
<section class="card table" data-id="table-card" hidden>
<p class="shared" data-id="shared" hidden></p>
<div class="wide" tabindex="0" role="region" aria-label="Figures of every method"><table>
  <thead data-id="head"></thead><tbody data-id="body"></tbody></table></div>
<p class="end" data-id="cut" hidden></p>
<p class="end"><span data-id="note"></span><span class="actions">
  <button type="button" class="quiet" data-id="csv">CSV</button>
  <button type="button" class="quiet" data-id="json">JSON</button>
  <button type="button" class="quiet" data-id="png">PNG</button></span></p></section>
<section class="figures" data-id="figures" hidden>
<article class="card figure"><h2>Tokens a second</h2>
  <p>Mic-TP: with the time to read the prompt. The dashed line is plain decoding.</p>
  <div class="plot" data-id="bars"></div></article>
<article class="card figure"><h2>Tokens over <span class="switch" role="group" aria-label="Horizontal axis">
  <button type="button" aria-pressed="true" data-id="axis-time">time</button><button
    type="button" aria-pressed="false" data-id="axis-passes">forward passes</button></span></h2>
  <p>Every method from the same start.</p><div class="plot" data-id="lines"></div></article>
<article class="card figure" data-id="sweep-card" hidden><h2><span data-id="sweep-name"></span> varied</h2>
  <p>Tokens a pass (τ, solid, left) and tokens a second (dashed, right; the dotted line is plain decoding).</p>
  <div class="plot" data-id="sweep"></div></article></section>
<p class="hero-hint" data-id="hint">${HINT}</p>
<p class="unseen" role="status" data-id="status"></p>`;

/** @typedef {Methods & { examples: string[] }} Facts */
/** @typedef {Refused | FileMessage | Waiting | Building | Left | RunMessage<BriefStep>} Message */

/** @param {Host<Facts>} host */
export function mount({ element, props, watch, facts, ask }) {
  const tab = new CompareTab(find(element, ".stage"), facts, ask);
  watch("value", () => tab.take(JSON.parse(props.value)));
}

class CompareTab {
  /**
   * @param {HTMLElement} stage
   * @param {Facts} facts
   * @param {Ask} ask
   */
  constructor(stage, facts, ask) {
    this.stage = stage;
    this.facts = facts;
    this.ask = ask;
    /** @type {Stream<BriefStep>} */
    this.stream = EMPTY;
    this.ended = 0; // methods that were over when the charts were drawn last
    this.at = fill(stage, TEMPLATE);
    this.fields = new Fields(byId("compare-ask"), "compare-");
    this.charts = new CompareCharts(this.at("bars"), this.at("lines"), this.at("sweep"));
    this.drawing = new Throttle(
      () => this.redraw(),
      () => (this.turn?.state === "running" ? CHARTS_EVERY : 0),
    );
    this.fields.explain(facts.examples);
    this.at("head").append(headRow());
    stage.dataset.state = "empty";
    this.listen();
    this.waits = false;
    const lost = stored((store) => takeCutOff(store, "compare"));
    if (lost) this.fields.refuse({ field: "", text: lost === WAITED ? GIVEN_UP : CUT_OFF });
  }

  listen() {
    this.at("csv").addEventListener("click", () => {
      save("spectra-comparison.csv", csvOf(this.turn?.rows ?? []), "text/csv");
    });
    this.at("json").addEventListener("click", () => this.ask("download"));
    this.at("png").addEventListener("click", () => this.savePicture());
    this.at("axis-time").addEventListener("click", () => this.turnTo("time"));
    this.at("axis-passes").addEventListener("click", () => this.turnTo("passes"));
    oneClick(byId("compare-go"));
    byId("compare-go").addEventListener("click", () => this.fields.clear());
    handOver("#compare-go", byId("compare-stop"));
    addEventListener("pagehide", () => stored((store) => this.keep(store)));
    new MutationObserver(() => this.draw(true)).observe(document.body, { attributeFilter: ["class"] });
    new ResizeObserver(() => this.draw()).observe(this.at("bars"));
  }

  /**
   * What the next load of the page is to tell of a comparison that waits or runs.
   * @param {Storage} store
   */
  keep(store) {
    if (this.waits) leaveWord(store, "compare", WAITED);
    else keepCutOff(store, this.turn, "compare");
  }

  /** The comparison that is shown. */
  get turn() {
    return this.stream.turns[0];
  }

  /** @param {Message} message */
  take(message) {
    if (message.kind !== "file") this.waits = message.kind === "waiting";
    switch (message.kind) {
      case "refused":
        return this.fields.refuse(message);
      case "file":
        return save(message.name, message.text);
      case "waiting":
        return this.note(`Waiting for the model: ${plural(message.ahead, "visitor")} before you.`);
      case "building":
        return this.note(`${sentence(building(message))}.`);
      case "left":
        return this.restore();
      default:
        return this.follow(message);
    }
  }

  /** @param {RunMessage<BriefStep>} message */
  follow(message) {
    const before = this.stream;
    this.stream = reduce(before, message);
    if (this.stream === before) return;
    if (this.stream.behind) this.ask("resync");
    else if (this.turn) this.update(this.turn, before.turns[0]);
  }

  /** The place in line was left: the page is as it was. */
  restore() {
    if (this.turn) this.show(this.turn);
    else this.at("hint").textContent = HINT;
  }

  /**
   * @param {Turn<BriefStep>} turn
   * @param {Turn<BriefStep> | undefined} before
   */
  update(turn, before) {
    if (turn.begin !== before?.begin) this.begin(turn);
    if (turn.end && turn.end !== before?.end) this.end(turn, turn.end);
    this.show(turn);
  }

  /** @param {Turn<BriefStep>} turn */
  begin({ run, state, begin }) {
    this.fields.clear();
    this.at("sweep-card").hidden = !begin.sweep;
    this.at("sweep-name").textContent = sentence(begin.sweep?.letter ?? "");
    Object.assign(this.stage.dataset, { run, state });
    this.at("hint").hidden = true;
    this.at("table-card").hidden = false;
    this.at("figures").hidden = false;
    this.enableFiles(false);
  }

  /** @param {boolean} on */
  enableFiles(on) {
    for (const id of FILES) this.at(id).toggleAttribute("disabled", !on);
  }

  /**
   * @param {Turn<BriefStep>} turn
   * @param {End} end
   */
  end({ state, rows }, { problem }) {
    this.stage.dataset.state = state;
    if (problem) this.fields.refuse(problem);
    this.enableFiles(rows.length > 0);
    const best = rows.length > 1 ? fastest(rows) : null;
    const lead = best && best.method !== PLAIN ? `, ${ratio(best.speedup ?? 0)} times plain decoding` : "";
    const cut = CUT_SHORT[state] ?? "";
    const said = best ? `${cut}Fastest: ${best.name}${lead}` : cut || "Compared";
    this.at("status").textContent = said.trim();
  }

  /**
   * The rows of the table: a finished method's figures are the server's; those of one that runs are read off its steps.
   * @param {Turn<BriefStep>} turn
   */
  rows({ begin, lanes, rows }) {
    return Object.entries(lanes).map(([name, lane]) => {
      const who = { lane: name, method: begin.lanes[name], name: begin.names[name] };
      return rows.find((row) => row.lane === name) ?? liveRow(who, lane);
    });
  }

  /** @param {AxisName} axis of the chart of tokens */
  turnTo(axis) {
    this.charts.axis = axis;
    this.at("axis-time").setAttribute("aria-pressed", String(axis === "time"));
    this.at("axis-passes").setAttribute("aria-pressed", String(axis === "passes"));
    this.draw(true);
  }

  /** @param {Turn<BriefStep>} turn */
  show(turn) {
    const best = turn.rows.length > 1 ? (fastest(turn.rows)?.speedup ?? 0) : null;
    const lines = this.rows(turn).map((row) =>
      tableRow(row, turn.rows.includes(row) ? "ended" : turn.state, row.speedup === best),
    );
    for (const line of lines) line.title = this.facts.methods[line.dataset.method ?? ""] ?? "";
    replace(this.at("body"), lines);
    const shared = Math.max(turn.shared, ...turn.rows.map((row) => row.shared ?? 0));
    this.at("shared").hidden = !shared;
    const text = prose`Shared with ${plural(shared, "other")}: seconds and tokens/s are not those of one who decodes
      alone, no speedup is claimed, and trees may be smaller.`;
    write(this.at("shared"), text);
    const cut = cutsOf(turn.rows);
    const left = turn.begin.left ?? [];
    if (left.length) cut.push(`Left out, as the model in use does not run it: ${list(left)}.`);
    if (turn.rows.some((row) => row.few)) cut.push("Too little was decoded to compare speeds.");
    write(this.at("cut"), cut.join(" "));
    this.at("cut").hidden = !this.at("cut").textContent;
    this.note(turn.state === "running" ? this.soFar(turn) : this.summary(turn));
    this.draw(turn.rows.length !== this.ended);
    this.ended = turn.rows.length;
  }

  /** @param {Turn<BriefStep>} turn */
  soFar({ begin, lanes, rows }) {
    const running = Object.keys(lanes).find((name) => !rows.some((row) => row.lane === name));
    if (!running) return "";
    return `${begin.names[running]}: ${plural(lanes[running].tokens, "token")} so far`;
  }

  /** @param {Turn<BriefStep>} turn */
  summary({ state, lanes, rows }) {
    const total = Object.values(lanes).reduce((sum, lane) => sum + lane.seconds, 0);
    const cut = CUT_SHORT[state] ?? "";
    if (!rows.length) return `${cut}No method came to its end.`;
    return `${cut}${plural(rows.length, "method")}, ${seconds(total)} of decoding, one after the other.`;
  }

  /** @param {string} text */
  note(text) {
    this.at("note").textContent = text;
    if (this.at("table-card").hidden && text) this.at("hint").textContent = text;
  }

  async savePicture() {
    await drawnIn(this.at("figures"), async () => save("spectra-comparison.png", await this.charts.picture()));
  }

  get chartsShown() {
    return !this.at("figures").hidden && this.at("bars").clientWidth > 0;
  }

  /** @param {boolean} [now] at once though methods still run: between two of them, or as the visitor asks */
  draw(now = false) {
    if (!this.chartsShown) return;
    if (this.turn?.state === "running" && !now) this.drawing.ask();
    else this.drawing.hurry();
  }

  async redraw() {
    const { turn } = this;
    if (!turn || !this.chartsShown) return;
    const draw = () => this.charts.draw(this.rows(turn), turn.lanes, turn.begin.sweep ?? null);
    await drawnIn(this.at("figures"), draw);
  }
}

/** @param {ComparedRow[]} rows */
function fastest(rows) {
  return rows
    .filter((row) => row.speedup)
    .reduce(
      (best, row) => ((row.speedup ?? 0) > (best?.speedup ?? 0) ? row : best),
      /** @type {ComparedRow | null} */ (null),
    );
}
