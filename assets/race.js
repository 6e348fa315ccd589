// One race on the screen: takes the server's messages and keeps lanes, clock, charts and step panel together. It shows
// what it is told; every figure of a finished race was computed by the server.
import { Board } from "./board.js";
import { Charts } from "./charts.js";
import { Clock } from "./clock.js";
import { clear, refuse } from "./fields.js";
import { make, plural, seconds } from "./format.js";
import { Inside } from "./inside.js";
import { Lane } from "./lane.js";
import { Legend } from "./legend.js";
import { Links } from "./links.js";
import { STAGE } from "./stage.js";

const CHARTS_EVERY = 700;
const STATUS_EVERY = 1000;

export function mount({ element, props, watch, facts, ask }) {
  const race = new Race(element.querySelector(".stage"), facts, ask);
  watch("value", () => race.take(JSON.parse(props.value)));
  element.race = race;
}

class Race {
  constructor(stage, facts, ask) {
    Object.assign(this, { stage, facts, ask, state: "empty" });
    stage.innerHTML = STAGE;
    stage.dataset.state = this.state;
    const found = new Map([...stage.querySelectorAll("[data-id]")].map((node) => [node.dataset.id, node]));
    this.at = (id) => found.get(id);
    this.lanes = { plain: new Lane(make("div")), method: new Lane(make("div")) };
    this.hint = this.at("text-method").firstElementChild;
    this.board = new Board(this.at);
    this.clock = new Clock((time) => this.board.clock(this.lanes, time, this.span), () => this.showPlay());
    this.legend = new Legend(this.at("legend"), stage, facts.legend, () => this.drawCharts());
    this.charts = new Charts(this.at("plot-growth"), this.at("plot-gain"), facts.legend, (step, chosen) =>
      chosen ? this.links.look(step) : this.links.light(step));
    this.links = new Links(this.at, facts.legend, this.charts, new Inside(this.at, facts.legend));
    this.dress();
    this.listen();
    (window.requestIdleCallback ?? setTimeout)(() => this.charts.load().catch(() => {}), { timeout: 2000 });
  }

  dress() {
    const { model, badges, examples } = this.facts;
    document.querySelector(".top .badges")?.replaceChildren(...[model, ...badges].map((text) => make("li", "", text)));
    document.querySelectorAll("button.example").forEach((button, i) => (button.title = examples[i] ?? ""));
    this.legend.show(null);
  }

  listen() {
    this.at("play").addEventListener("click", () => this.replay());
    this.at("download").addEventListener("click", () => this.ask("download"));
    for (const axis of ["time", "passes"]) this.at(`axis-${axis}`).addEventListener("click", () => this.turn(axis));
    document.getElementById("go").addEventListener("click", () => this.wait());
    document.getElementById("field-prompt").addEventListener("keydown", ({ key, shiftKey }) => {
      if (key === "Enter" && !shiftKey) this.wait();
    });
    new MutationObserver(() => this.drawCharts()).observe(document.body, { attributeFilter: ["class"] });
    new ResizeObserver(() => this.drawCharts()).observe(this.at("plot-gain"));
  }

  take(message) {
    if (message.kind === "refused") return this.refused(message);
    if (message.kind === "trace") return save(message.name, message.text);
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

  // The button was pressed; the model may be busy with someone else.
  wait() {
    if (this.state === "running") return;
    clear();
    this.before = this.at("verdict").textContent;
    this.at("verdict").textContent = "waiting for the model …";
    this.say("Waiting for the model");
  }

  refused({ field, text }) {
    this.at("verdict").textContent = this.before ?? "";
    this.say("");
    refuse(field, text);
  }

  begin({ run, method, cap }) {
    clear();
    this.clock.halt();
    Object.assign(this, { run, cap, state: "running", name: method === "spectra" ? "SPECTRA" : method });
    Object.assign(this.stage.dataset, { run, state: this.state });
    this.lanes = { plain: new Lane(this.at("text-plain")), method: new Lane(this.at("text-method"), true) };
    this.at("text-method").append(this.hint);
    this.at("title").title = this.facts.methods[method] ?? "";
    this.given = new Map();
    this.at("figures").hidden = false;
    this.at("play").hidden = this.at("download").hidden = true;
    this.board.begin(this.name);
    this.links.close(this.lanes.method);
    this.showLive();
  }

  delta(message) {
    if (this.state !== "running") return; // one that crossed with Stop
    for (const [name, lane] of Object.entries(this.lanes)) {
      const fresh = message[name].slice(lane.steps.length - message.from[name]);
      lane.extend(fresh);
      if (name === "plain") continue;
      for (const source of fresh.flatMap((step) => step.sources)) this.given.set(source, (this.given.get(source) ?? 0) + 1);
    }
    this.showLive();
  }

  end({ state, problem, figures, words }) {
    const { plain, method } = this.lanes;
    this.stage.dataset.state = this.state = state;
    if (problem) refuse(problem.field, problem.text);
    this.board.final(figures, state);
    if (typeof figures.differs === "number") for (const lane of [plain, method]) lane.flag(figures.differs);
    this.legend.show(this.given, figures.method);
    this.drawCharts();
    this.at("download").hidden = !plain.steps.length;
    this.links.open(words);
    if (state === "done") this.clock.play(method.seconds, this.span);
    else this.board.clock(this.lanes, Infinity, this.span);
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
    this.at("play").hidden = this.state !== "done";
    this.at("play").textContent = pace > 1 ? `Play both at ${pace}×` : "Play both";
  }

  replay() {
    if (this.clock.running) {
      this.clock.halt();
      this.board.clock(this.lanes, Infinity, this.span);
      return this.showPlay();
    }
    this.at("play").textContent = "Stop replay";
    this.clock.play(0, this.span);
  }

  turn(axis) {
    this.charts.axis = axis;
    for (const each of ["time", "passes"]) this.at(`axis-${each}`).setAttribute("aria-pressed", String(each === axis));
    this.drawCharts();
  }

  // Not more often than `CHARTS_EVERY` ms while a race runs; the last call always gets drawn.
  drawCharts() {
    if (this.at("figures").hidden) return;
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

function save(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
