/**
 * One race on the screen, live or recorded: keeps lanes, clock, charts and step panel together. It shows what the
 * stream of messages holds; every figure was computed by the server.
 */

import { drawnIn, loadAhead } from "../charts/plotly.js";
import { RaceCharts } from "../charts/race-charts.js";
import { Choice } from "../common/choice.js";
import { fill, write } from "../common/dom.js";
import { bare, plural, seconds, sentence } from "../common/format.js";
import { Throttle } from "../common/throttle.js";
import { EMPTY, reduce } from "../stream/reducer.js";
import { Clock } from "./clock.js";
import { LaneView } from "./lane-view.js";
import { Legend } from "./legend.js";
import { Scoreboard } from "./scoreboard.js";
import { StepLinks } from "./step-links.js";
import { StepPanel } from "./step-panel.js";
import { TEMPLATE } from "./template.js";
import { sparedPasses } from "./verdict.js";

/** @import { AxisName } from "../charts/race-figures.js" */
/** @import { Ask, Look, Methods } from "../common/tab.js" */
/** @import { ComparedFigures, End, LaneFigures, Problem, RunMessage } from "../stream/messages.js" */
/** @import { Stream, Turn } from "../stream/reducer.js" */

const CHARTS_EVERY = 1500; // ms between two drawings while a lane is measured, more where one takes long
const CHARTS_LATEST = 4000;
const CHARTS_SHARE = 40; // of that time a drawing takes one part
const STATUS_EVERY = 1000;
const BUTTONS = ["play", "alone", "download", "again", "link", "clear"];

/**
 * ask: for the server. refuse: a run ended with this problem. steady: recordings only.
 * @typedef {object} Hooks
 * @property {Ask} ask
 * @property {(problem: Problem) => void} refuse
 * @property {boolean} [steady]
 */

export class RaceView {
  /**
   * @param {HTMLElement} stage
   * @param {Methods & { legend: Look[] }} facts
   * @param {Hooks} hooks
   */
  constructor(stage, facts, { ask, refuse, steady = false }) {
    this.stage = stage;
    this.facts = facts;
    this.ask = ask;
    this.refuse = refuse;
    this.steady = steady;
    /** @type {Stream} */
    this.stream = EMPTY;
    this.name = "";
    this.spoken = 0; // when the status was read out last
    this.seen = false; // whether the charts are on the screen
    this.late = false; // whether they show less than the race has: they were not on the screen, or not loaded
    this.at = fill(stage, TEMPLATE);
    this.hints = { plain: this.at("text-plain").firstElementChild, method: this.at("text-method").firstElementChild };
    this.lanes = this.emptyLanes();
    this.scoreboard = new Scoreboard(this.at);
    this.clock = new Clock(
      (time) => this.scoreboard.clock(this.lanes, time, this.span),
      () => this.showPlay(),
    );
    this.legend = new Legend(this.at("legend"), stage, facts.legend, () => this.drawCharts(true));
    const boxes = ["plot-growth", "plot-gain", "plot-acceptance"].map((id) => this.at(id));
    this.charts = new RaceCharts(boxes[0], boxes[1], boxes[2], facts.legend, (step, chosen) =>
      chosen ? this.links.look(step) : this.links.light(step),
    );
    this.of = new Choice("Share of", { guessed: "all guesses", reached: "those judged" }, () => this.judgeBy());
    this.at("accepted-of").append(this.of.box);
    this.links = new StepLinks(this.at, facts.legend, this.charts, new StepPanel(this.at, facts.legend));
    this.drawing = new Throttle(
      () => this.redraw(),
      () =>
        this.state === "running" ? Math.min(CHARTS_LATEST, Math.max(CHARTS_EVERY, CHARTS_SHARE * this.charts.cost)) : 0,
    );
    this.clear();
    this.listen();
  }

  listen() {
    this.at("play").addEventListener("click", () => this.replay());
    this.at("axis-time").addEventListener("click", () => this.turnTo("time"));
    this.at("axis-passes").addEventListener("click", () => this.turnTo("passes"));
    new MutationObserver(() => this.drawCharts(true)).observe(document.body, { attributeFilter: ["class"] });
    new ResizeObserver(() => this.drawCharts()).observe(this.at("plot-growth"));
    new IntersectionObserver((entries) => {
      this.seen = entries[entries.length - 1].isIntersecting;
      if (this.seen && this.late) this.drawCharts(true);
    }).observe(this.at("figures"));
    if (!this.steady) loadAhead();
  }

  /** The race that is shown. */
  get turn() {
    return this.stream.turns[0];
  }

  get state() {
    return this.turn?.state ?? "empty";
  }

  /** Seconds of the longer lane. */
  get span() {
    return Math.max(this.lanes.plain.lane.seconds, this.lanes.method.lane.seconds);
  }

  /** @param {RunMessage} message */
  take(message) {
    const before = this.stream;
    this.stream = reduce(before, message);
    if (this.stream === before) return;
    if (this.stream.behind) this.ask("resync");
    else if (this.turn) this.show(this.turn, before.turns[0]);
    else this.clear();
  }

  /**
   * @param {Turn} turn
   * @param {Turn | undefined} before
   */
  show(turn, before) {
    const fresh = turn.begin !== before?.begin;
    if (fresh) this.begin(turn);
    if (fresh || turn.lanes !== before?.lanes) {
      this.lanes.plain.show(turn.lanes.plain);
      this.lanes.method.show(turn.lanes.method);
      this.showLive(turn);
    }
    if (turn.end && turn.end !== before?.end) this.end(turn, turn.end);
  }

  emptyLanes() {
    const method = new LaneView(this.at("text-method"), true);
    if (this.hints.method) method.box.append(this.hints.method);
    return { plain: new LaneView(this.at("text-plain")), method };
  }

  /** As before the first race. */
  clear() {
    this.clock.halt();
    this.stage.dataset.state = "empty";
    this.lanes = this.emptyLanes();
    if (this.hints.plain) this.at("text-plain").append(this.hints.plain);
    for (const id of ["figures", "inside", "recorded", ...BUTTONS]) this.at(id).hidden = true;
    this.at("idea").textContent = idea(this.facts.methods, "spectra");
    this.links.close(this.lanes.method);
    this.scoreboard.empty();
    this.legend.show(null);
  }

  /** @param {Turn} turn */
  begin({ run, state, begin }) {
    this.clock.halt();
    const { method } = begin.lanes;
    this.name = begin.names.method;
    Object.assign(this.stage.dataset, { run, state });
    this.lanes = this.emptyLanes();
    this.at("title").title = this.facts.methods[method] ?? "";
    this.at("idea").textContent = idea(this.facts.methods, method);
    this.at("recorded").hidden = !begin.recorded;
    this.at("recorded-note").textContent = begin.recorded ?? "";
    this.at("recorded-hint").hidden = this.steady;
    this.at("link").textContent = "Copy link";
    this.at("figures").hidden = false;
    this.at("figures").dataset.stale = "";
    for (const id of BUTTONS) this.at(id).hidden = true;
    this.scoreboard.begin(this.name);
    this.links.close(this.lanes.method);
  }

  /**
   * The lane that is being measured is shown as it grows; plain decoding then runs again beside the method, on its
   * clock.
   * @param {Turn} turn
   */
  showLive({ begin, level, shared }) {
    const { plain, method } = this.lanes;
    const racing = method.lane.steps.length > 0;
    const view = racing ? method : plain;
    const guess = (plain.lane.seconds * begin.cap) / Math.max(plain.lane.tokens, 1);
    this.announce();
    if (shared) this.scoreboard.share(shared);
    else this.scoreboard.live(racing ? level : null);
    this.showLegend(null);
    const phase = racing ? "method" : "plain";
    if (this.stage.dataset.phase !== phase) this.stage.dataset.phase = phase;
    this.scoreboard.clock(this.lanes, view.lane.seconds, racing ? this.span : guess);
    view.follow();
    this.drawCharts();
  }

  /**
   * @param {Turn} turn
   * @param {End} end
   */
  end({ state, begin }, { problem, figures, words }) {
    const { plain, method } = this.lanes;
    const recorded = Boolean(begin.recorded);
    this.stage.dataset.state = state;
    if (problem) this.refuse(problem);
    this.scoreboard.final(figures, state, recorded);
    if ("level" in figures && figures.differs !== null && !figures.drawn) {
      plain.flag(figures.differs);
      method.flag(figures.differs);
    }
    this.showLegend(figures.method);
    this.at("figures").hidden = !plain.lane.steps.length;
    this.drawCharts();
    this.at("download").hidden = !plain.lane.steps.length || recorded;
    this.at("again").hidden = recorded;
    this.at("alone").hidden = recorded || !("level" in figures && figures.shared);
    this.at("link").hidden = this.steady;
    this.at("clear").hidden = this.steady;
    this.links.open(words, "level" in figures && figures.drawn);
    if (state === "done" && !recorded) this.clock.play(method.lane.seconds, this.span);
    else this.showAll();
    if (recorded) {
      this.showPlay();
      for (const { box } of [plain, method]) box.scrollTop = 0;
    }
    this.announce(true);
  }

  /** @param {LaneFigures | null} figures */
  showLegend(figures) {
    const { steps } = this.lanes.method.lane;
    this.legend.show(steps.length ? { steps, figures, of: this.of.value } : null);
  }

  /** Shares of all guesses, as the paper counts, or of those that the model got to judge. */
  judgeBy() {
    this.charts.of = this.of.value;
    this.showLegend(this.turn?.end?.figures.method ?? null);
    this.drawCharts(true);
  }

  /** Both answers to their end. */
  showAll() {
    this.scoreboard.clock(this.lanes, Infinity, this.span);
  }

  showPlay() {
    const speed = Clock.speed(this.span);
    this.at("play").hidden = this.state !== "done" || this.steady;
    this.at("play").textContent = speed > 1 ? `Play both at ${speed}×` : "Play both";
  }

  /**
   * @param {number} [speed] seconds shown a second; left out, the button's own, which stops a replay that is running
   */
  replay(speed) {
    if (this.clock.running && !speed) {
      this.clock.halt();
      this.showAll();
      this.showPlay();
      return;
    }
    this.at("play").textContent = "Stop replay";
    if (speed === Infinity) {
      this.clock.halt();
      this.showAll();
    } else this.clock.play(0, this.span, speed);
  }

  /** @param {AxisName} axis of the chart of tokens */
  turnTo(axis) {
    this.charts.axis = axis;
    this.at("axis-time").setAttribute("aria-pressed", String(axis === "time"));
    this.at("axis-passes").setAttribute("aria-pressed", String(axis === "passes"));
    this.drawCharts(true);
  }

  /**
   * Only charts that are on the screen; the others once they come there. While a race runs not more often than every
   * `CHARTS_EVERY` ms; the last call always gets drawn.
   * @param {boolean} [now] at once all the same: the visitor asked to see something else
   */
  drawCharts(now = false) {
    this.late = !this.seen;
    if (!this.chartsShown || this.late) return;
    if (this.state !== "running" || now) this.drawing.hurry();
    else this.drawing.ask();
  }

  get chartsShown() {
    return !this.at("figures").hidden && this.at("plot-growth").clientWidth > 0;
  }

  async redraw() {
    const { turn } = this;
    if (!turn || !this.chartsShown) return;
    const race = {
      plain: turn.lanes.plain,
      method: turn.lanes.method,
      cap: turn.begin.cap,
      over: turn.state !== "running",
      level: turn.end && "level" in turn.end.figures && claims(turn.end.figures) ? turn.end.figures.level : null,
      name: bare(this.name),
    };
    const figures = this.at("figures");
    const drawn = await drawnIn(figures, () => this.charts.draw(race, (source) => this.legend.shown(source)));
    if (!drawn) this.late = true;
    else if (turn.run === this.turn?.run) delete figures.dataset.stale;
    this.links.frame();
  }

  announce(now = false) {
    if (!now && performance.now() - this.spoken < STATUS_EVERY) return;
    this.spoken = performance.now();
    const { plain, method } = this.lanes;
    const [name, { lane }] = method.lane.steps.length ? [this.name, method] : ["Plain decoding", plain];
    if (this.state === "running") this.say(`${name}: ${plural(lane.tokens, "token")} in ${seconds(lane.seconds)}`);
    else this.say(["speedup", "verdict", "badge"].map((id) => this.at(id).textContent).join(" "));
  }

  /**
   * What goes on while no step comes, in the place of the verdict.
   * @param {string} text
   * @param {string} aloud without figures that change several times a second
   */
  tell(text, aloud) {
    this.at("verdict").textContent = text;
    this.say(aloud);
  }

  /** @param {string} text */
  say(text) {
    write(this.at("status"), text);
  }
}

/**
 * Whether the chart may say what was saved.
 * @param {ComparedFigures} figures
 */
const claims = (figures) => !figures.shared && !figures.few && sparedPasses(figures);

/**
 * What a method guesses from, as a sentence.
 * @param {Record<string, string>} methods
 * @param {string} method
 */
function idea(methods, method) {
  const own = method.startsWith("spectra") ? "" : methods[method];
  return own ? `${sentence(own)}.` : "Dictionaries and a datastore guess what comes next.";
}
