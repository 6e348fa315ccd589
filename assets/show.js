// One race on the screen, live or recorded: takes messages and keeps lanes, clock, charts and step panel together. It
// shows what it is told; every figure of a finished race was computed by the server.
import { Board } from "./board.js";
import { Charts } from "./charts.js";
import { Clock } from "./clock.js";
import { plural, seconds, sentence } from "./format.js";
import { Inside } from "./inside.js";
import { Lane } from "./lane.js";
import { Legend } from "./legend.js";
import { Links } from "./links.js";
import { STAGE } from "./stage.js";

const CHARTS_EVERY = 700;
const STATUS_EVERY = 1000;

export class Show {
  // ask(what): for the server. refuse({field, text}): a run ended with this problem. steady: recordings only.
  constructor(stage, facts, { ask, refuse, steady = false }) {
    Object.assign(this, { stage, facts, ask, refuse, begun: () => {}, link: {}, steady });
    stage.innerHTML = STAGE;
    const found = new Map([...stage.querySelectorAll("[data-id]")].map((node) => [node.dataset.id, node]));
    this.at = (id) => found.get(id);
    this.hints = [this.at("text-plain").firstElementChild, this.at("text-method").firstElementChild];
    this.board = new Board(this.at);
    this.clock = new Clock((time) => this.board.clock(this.lanes, time, this.span), () => this.showPlay());
    this.legend = new Legend(this.at("legend"), stage, facts.legend, () => this.drawCharts());
    this.charts = new Charts(this.at("plot-growth"), this.at("plot-gain"), facts.legend, (step, chosen) =>
      chosen ? this.links.look(step) : this.links.light(step));
    this.links = new Links(this.at, facts.legend, this.charts, new Inside(this.at, facts.legend));
    this.clear();
    this.at("play").addEventListener("click", () => this.replay());
    for (const axis of ["time", "passes"]) this.at(`axis-${axis}`).addEventListener("click", () => this.turn(axis));
    new MutationObserver(() => this.drawCharts()).observe(document.body, { attributeFilter: ["class"] });
    new ResizeObserver(() => this.drawCharts()).observe(this.at("plot-growth"));
    (window.requestIdleCallback ?? setTimeout)(() => this.charts.load().catch(() => {}), { timeout: 2000 });
  }

  take(message) {
    if (message.kind === "clear") return (this.gone = this.run), this.clear();
    if (this.gone && (message.run ?? message.begin.run) === this.gone) return; // it was on its way when the page was cleared
    if (message.kind === "begin") return this.begin(message);
    if (message.kind === "snapshot") {
      this.begin(message.begin);
      this.delta(message);
      return message.end && this.end(message.end);
    }
    if (message.run !== this.run || this.missed(message)) return this.ask("resync");
    return message.kind === "delta" ? this.delta(message) : this.end(message);
  }

  missed({ from, counts }) {
    return Object.entries(this.lanes).some(([name, lane]) =>
      from ? from[name] > lane.steps.length : counts[name] !== lane.steps.length);
  }

  // As before the first race.
  clear() {
    this.clock.halt();
    this.run = null;
    this.stage.dataset.state = this.state = "empty";
    this.lanes = { plain: new Lane(this.at("text-plain")), method: new Lane(this.at("text-method"), true) };
    this.at("text-plain").append(this.hints[0]);
    this.at("text-method").append(this.hints[1]);
    for (const id of ["figures", "inside", "play", "download", "again", "link", "clear", "recorded"]) this.at(id).hidden = true;
    this.at("idea").textContent = idea(this.facts.methods, "spectra");
    this.links.close(this.lanes.method);
    this.board.empty();
    this.legend.show(null);
  }

  begin({ run, lanes, cap, link, recorded }) {
    this.clock.halt();
    this.begun();
    const method = lanes[1];
    const name = this.facts.names[method] ?? method;
    Object.assign(this, { run, cap, link, recorded, name, state: "running" });
    Object.assign(this.stage.dataset, { run, state: this.state });
    this.lanes = { plain: new Lane(this.at("text-plain")), method: new Lane(this.at("text-method"), true) };
    this.at("text-method").append(this.hints[1]);
    this.at("title").title = this.facts.methods[method] ?? "";
    this.at("idea").textContent = idea(this.facts.methods, method);
    this.at("recorded").hidden = !recorded;
    this.at("recorded-note").textContent = recorded ?? "";
    this.at("recorded-hint").hidden = this.steady;
    this.at("link").textContent = "Copy link";
    this.given = new Map();
    this.at("figures").hidden = false;
    for (const id of ["play", "download", "again", "link", "clear"]) this.at(id).hidden = true;
    this.board.begin(this.name);
    this.links.close(this.lanes.method);
    this.showLive();
  }

  delta({ from, lanes }) {
    if (this.state !== "running") return; // one that crossed with Stop
    for (const [name, lane] of Object.entries(this.lanes)) {
      const fresh = lanes[name].slice(lane.steps.length - from[name]);
      lane.extend(fresh);
      if (name === "plain") continue;
      for (const source of fresh.flatMap((step) => step.sources)) this.given.set(source, (this.given.get(source) ?? 0) + 1);
    }
    this.showLive();
  }

  end({ state, problem, figures, words }) {
    const { plain, method } = this.lanes;
    this.figures = figures;
    this.stage.dataset.state = this.state = state;
    if (problem) this.refuse(problem);
    this.board.final(figures, state, this.recorded);
    if (typeof figures.differs === "number" && !figures.drawn) for (const lane of [plain, method]) lane.flag(figures.differs);
    this.legend.show(this.given, figures.method);
    this.drawCharts();
    this.at("download").hidden = !plain.steps.length || Boolean(this.recorded);
    this.at("again").hidden = Boolean(this.recorded);
    this.at("link").hidden = this.at("clear").hidden = this.steady;
    this.links.open(words);
    if (state === "done" && !this.recorded) this.clock.play(method.seconds, this.span);
    else this.board.clock(this.lanes, Infinity, this.span);
    if (this.recorded) {
      this.showPlay();
      for (const lane of [plain, method]) lane.box.scrollTop = 0;
    }
    this.announce(true);
  }

  get span() {
    return Math.max(this.lanes.plain.seconds, this.lanes.method.seconds);
  }

  // The lane that is being measured is shown as it grows; plain decoding then runs again beside the method, on its clock.
  showLive() {
    const { plain, method } = this.lanes;
    const lane = method.steps.length ? method : plain;
    const guess = (plain.seconds * this.cap) / Math.max(plain.tokens, 1);
    this.board.live(this.lanes);
    this.board.clock(this.lanes, lane.seconds, lane === plain ? guess : this.span);
    this.legend.show(lane === plain ? null : this.given);
    this.stage.dataset.phase = lane === plain ? "plain" : "method";
    lane.follow();
    this.drawCharts();
    this.announce();
  }

  showPlay() {
    const pace = Clock.pace(this.span);
    this.at("play").hidden = this.state !== "done" || this.steady;
    this.at("play").textContent = pace > 1 ? `Play both at ${pace}×` : "Play both";
  }

  // speed: seconds shown a second; left out, the button's own, which stops a replay that is running.
  replay(speed) {
    if (this.clock.running && !speed) {
      this.clock.halt();
      this.board.clock(this.lanes, Infinity, this.span);
      return this.showPlay();
    }
    this.at("play").textContent = "Stop replay";
    if (speed === Infinity) {
      this.clock.halt();
      this.board.clock(this.lanes, Infinity, this.span);
    } else this.clock.play(0, this.span, speed);
  }

  turn(axis) {
    this.charts.axis = axis;
    for (const each of ["time", "passes"]) this.at(`axis-${each}`).setAttribute("aria-pressed", String(each === axis));
    this.drawCharts();
  }

  // Not more often than `CHARTS_EVERY` ms while a race runs; the last call always gets drawn.
  drawCharts() {
    if (this.at("figures").hidden || !this.at("plot-growth").clientWidth) return;
    if (this.drawing) return void (this.again = true);
    this.drawing = true;
    this.again = false;
    const over = this.state !== "running";
    const shown = (source) => this.legend.shown(source);
    const next = () => {
      this.drawing = false;
      if (this.again) this.drawCharts();
      else this.links.frame();
    };
    this.charts
      .draw({ ...this.lanes, cap: this.cap, over, name: this.name, shown })
      .catch((error) => (this.at("figures").dataset.problem = error.message))
      .finally(() => setTimeout(next, over ? 0 : CHARTS_EVERY));
  }

  announce(now = false) {
    if (!now && performance.now() - (this.spoken ?? 0) < STATUS_EVERY) return;
    this.spoken = performance.now();
    const { plain, method } = this.lanes;
    const [name, lane] = method.steps.length ? [this.name, method] : ["Plain decoding", plain];
    if (this.state === "running") this.say(`${name}: ${plural(lane.tokens, "token")} in ${seconds(lane.seconds)}`);
    else this.say(["speedup", "verdict", "badge"].map((id) => this.at(id).textContent).join(" "));
  }

  say(text) {
    this.at("status").textContent = text;
  }
}

// What a method guesses from, as a sentence.
function idea(methods, method) {
  const own = method.startsWith("spectra") ? "" : methods[method];
  return own ? `${sentence(own)}.` : "Dictionaries and a datastore guess what comes next.";
}
