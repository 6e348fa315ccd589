// One race on the screen: takes messages from the server, keeps both lanes, the clock, the charts and the step panel in
// step with each other. It shows what it is told; every figure of a finished race was computed by the server.
import { Charts } from "./charts.js";
import { Clock } from "./clock.js";
import { clear, refuse } from "./fields.js";
import { count, list, make, percent, plural, ratio, seconds } from "./format.js";
import { Inside } from "./inside.js";
import { Lane } from "./lane.js";
import { Legend } from "./legend.js";
import { STAGE } from "./stage.js";

const CHARTS_EVERY = 400;
const STATUS_EVERY = 1000;

export function mount({ element, props, watch, facts, ask }) {
  const race = new Race(element.querySelector(".stage"), facts, ask);
  watch("value", () => race.take(JSON.parse(props.value)));
  element.race = race;
}

class Race {
  constructor(stage, facts, ask) {
    this.facts = facts;
    this.ask = ask;
    this.stage = stage;
    stage.innerHTML = STAGE;
    stage.classList.add("empty");
    const found = new Map([...stage.querySelectorAll("[data-id]")].map((node) => [node.dataset.id, node]));
    this.at = (id) => found.get(id);
    this.lanes = { plain: new Lane(make("div")), method: new Lane(make("div")) };
    this.clock = new Clock((time) => this.showTime(time), () => this.showPlay());
    this.legend = new Legend(this.at("legend"), stage, facts.legend, () => this.drawCharts());
    this.charts = new Charts(this.at("plot-growth"), this.at("plot-gain"), facts.legend, (step, chosen) => {
      this.light(step);
      if (chosen) this.look(step);
    });
    this.inside = new Inside(this.at, facts.legend);
    this.state = "empty";
    this.dress();
    this.listen();
    (window.requestIdleCallback ?? setTimeout)(() => this.charts.load(), { timeout: 2000 });
  }

  dress() {
    const badges = document.querySelector(".top .badges");
    badges?.replaceChildren(...[this.facts.model, ...this.facts.badges].map((text) => make("li", "", text)));
    document.querySelectorAll("button.example").forEach((button, i) => (button.title = this.facts.examples[i] ?? ""));
    this.legend.show(null);
  }

  listen() {
    const text = this.at("text-method");
    const stepOf = (event) => event.target.closest(".step")?.dataset.step;
    text.addEventListener("mouseover", (event) => this.light(stepOf(event) ?? null, event));
    text.addEventListener("mouseleave", () => this.light(null));
    text.addEventListener("click", (event) => stepOf(event) !== undefined && this.look(Number(stepOf(event))));
    this.at("play").addEventListener("click", () => this.replay());
    this.at("download").addEventListener("click", () => this.ask("download"));
    this.at("step-slider").addEventListener("input", (event) => this.look(Number(event.target.value) - 1));
    for (const axis of ["time", "passes"]) this.at(`axis-${axis}`).addEventListener("click", () => this.turn(axis));
    document.getElementById("go")?.addEventListener("click", () => this.wait());
    new MutationObserver(() => this.drawCharts()).observe(document.body, { attributeFilter: ["class"] });
    new ResizeObserver(() => this.drawCharts()).observe(this.at("plot-gain"));
  }

  // ---- messages

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

  wait() {
    clear();
    if (this.state !== "running") this.say("Waiting for the model …");
  }

  refused({ field, text }) {
    this.say("");
    refuse(field, text);
  }

  begin({ run, method, cap }) {
    clear();
    this.clock.halt();
    Object.assign(this, { run, cap, state: "running", figures: null, words: {}, chosen: null });
    Object.assign(this.stage.dataset, { run, state: this.state });
    this.name = method === "spectra" ? "SPECTRA" : method;
    this.at("who").textContent = this.at("title").textContent = this.name;
    this.lanes = { plain: new Lane(this.at("text-plain")), method: new Lane(this.at("text-method")) };
    this.given = new Map();
    this.stage.classList.remove("empty");
    this.at("figures").hidden = false;
    for (const id of ["inside", "play", "download"]) this.at(id).hidden = true;
    for (const id of ["badge", "more", "rate-plain", "rate-method", "note-method", "fine"]) this.at(id).textContent = "";
    this.at("badge").className = "badge";
    this.at("speedup").textContent = "–";
    this.legend.show(this.given);
    this.showLive();
  }

  delta(message) {
    for (const [name, lane] of Object.entries(this.lanes)) {
      const fresh = message[name].slice(lane.steps.length - message.from[name]);
      lane.extend(fresh);
      if (name === "method") for (const step of fresh) for (const s of step.sources) this.given.set(s, (this.given.get(s) ?? 0) + 1);
    }
    this.showLive();
  }

  end({ state, problem, figures, words }) {
    Object.assign(this, { state, figures, words });
    this.stage.dataset.state = state;
    const { plain, method } = this.lanes;
    if (problem) refuse(problem.field, problem.text);
    this.showFigures();
    this.legend.show(this.given, figures.method);
    this.drawCharts();
    this.at("download").hidden = !plain.steps.length;
    this.at("inside").hidden = !method.steps.length;
    if (method.steps.length) {
      this.at("step-slider").max = method.steps.length;
      this.look(busiest(method.steps));
    }
    if (state === "done") this.clock.play(method.seconds, Math.max(plain.seconds, method.seconds));
    else this.showTime(Infinity);
    this.announce(true);
  }

  // ---- what is shown

  get span() {
    return Math.max(this.lanes.plain.seconds, this.lanes.method.seconds);
  }

  showLive() {
    const { plain, method } = this.lanes;
    const racing = method.steps.length > 0;
    if (racing) {
      const level = Math.min(plain.tokens, method.tokens);
      this.at("speedup").textContent = ratio(plain.secondsTo(level) / method.secondsTo(level)) + "×";
      this.at("verdict").textContent = `so far, after ${plural(level, "token")}`;
      this.legend.show(this.given);
    } else this.at("verdict").textContent = "first plain decoding, alone";
    this.at("note-method").textContent = racing ? "" : "its turn comes when plain is done";
    this.showTime(racing ? method.seconds : plain.seconds);
    if (racing) method.follow();
    this.drawCharts();
    this.announce();
  }

  // Both lanes as they were `time` seconds after their start.
  showTime(time) {
    const { plain, method } = this.lanes;
    const measuringPlain = this.state === "running" && !method.steps.length;
    const span = measuringPlain ? (plain.seconds * this.cap) / Math.max(plain.tokens, 1) : this.span;
    for (const [name, lane] of Object.entries(this.lanes)) {
      lane.reach(time);
      const done = Math.min(time, lane.seconds);
      this.at(`bar-${name}`).style.transform = `scaleX(${span ? done / span : 0})`;
      if (!lane.steps.length) continue;
      const tokens = lane.totals[lane.reached];
      this.at(`rate-${name}`).replaceChildren(
        make("b", "", seconds(done)), ` ${count(done ? tokens / done : 0)} tokens/s, ${plural(lane.reached, "pass", "passes")}`);
      this.at(`note-${name}`).textContent = plural(tokens, "token");
    }
    if (measuringPlain) plain.follow();
  }

  showFigures() {
    const { figures, state } = this;
    const { plain, method } = figures;
    const word = { stopped: "Stopped. ", failed: "Ended early. " }[state] ?? "";
    if (!plain || !method) {
      this.at("verdict").textContent = `${word}No comparison: ${plain ? this.name : "plain decoding"} had not begun.`;
      this.at("speedup").textContent = "–";
      this.at("note-method").textContent = "";
      return;
    }
    this.at("speedup").textContent = ratio(figures.speedup) + "×";
    const whole = state === "done" ? "measured on this page" : `up to token ${count(Math.min(plain.tokens, method.tokens))}`;
    this.at("verdict").textContent = `${word}${figures.speedup >= 1 ? "faster" : "the speed of plain decoding"}, ${whole}`;
    const same = figures.differs === null;
    this.at("badge").className = `badge ${same ? "same" : "differs"}`;
    this.at("badge").textContent = same
      ? figures.whole ? "Identical output" : `Identical for ${plural(figures.same, "token")}`
      : `First difference at token ${count(figures.differs + 1)}`;
    if (!same) for (const lane of Object.values(this.lanes)) lane.flag(figures.differs);
    const tau = make("b", "", `${ratio(method.tau)} tokens per forward pass (τ)`);
    this.at("more").replaceChildren(same && figures.whole ? `, all ${plural(figures.same, "token")}. ` : ". ", tau, ".");
    this.at("fine").textContent =
      `First token after ${seconds(plain.first)} plain, ${seconds(method.first)} ${this.name}. ` +
      `${percent(method.distinct4)} of the answer's 4-grams are distinct${method.distinct4 < 0.5 ? ": it loops, which makes guessing easy" : ""}.`;
  }

  showPlay() {
    this.at("play").hidden = this.state !== "done";
    const pace = Clock.pace(this.span);
    this.at("play").textContent = pace > 1 ? `Play both at ${pace}×` : "Play both";
  }

  replay() {
    if (this.clock.running) return this.clock.halt(), this.showTime(Infinity), this.showPlay();
    this.at("play").textContent = "Stop replay";
    this.clock.play(0, this.span);
  }

  // Outline one step wherever it is drawn.
  light(step, event = null) {
    step = step === null ? null : Number(step);
    if (step === this.lit) return;
    this.lanes.method.mark(this.lit, false);
    this.lit = step;
    this.lanes.method.mark(step, true);
    this.charts.light(step ?? this.chosen);
    this.tip(step, event);
  }

  tip(step, event) {
    const tip = this.at("tip");
    const facts = step === null ? null : this.lanes.method.steps[step];
    tip.hidden = !facts;
    if (!facts) return;
    const tally = new Map();
    for (const source of facts.sources) tally.set(source, (tally.get(source) ?? 0) + 1);
    const parts = this.facts.legend.filter((look) => tally.has(look.source)).map((look) => `${tally.get(look.source)} ${look.name.toLowerCase()}`);
    tip.replaceChildren(make("b", "", `Step ${count(step + 1)}: ${plural(facts.sources.length, "token")}`), make("span", "", list(parts)));
    const box = (event ? event.target.closest(".step").getClientRects()[0] : this.charts.band.getBoundingClientRect());
    tip.style.left = `${Math.max(8, Math.min(innerWidth - tip.offsetWidth - 8, box.left))}px`;
    tip.style.top = `${Math.max(8, box.top - tip.offsetHeight - 6)}px`;
  }

  // Open one step in the panel.
  look(step) {
    const { method } = this.lanes;
    if (this.state === "running" || !method.steps[step]) return;
    method.spans[this.chosen]?.classList.remove("chosen");
    this.chosen = step;
    method.spans[step].classList.add("chosen");
    this.at("step-slider").value = step + 1;
    this.at("step-slider").setAttribute("aria-valuetext", `step ${step + 1}`);
    this.inside.show(method, step, this.words);
    this.charts.light(step);
  }

  turn(axis) {
    this.charts.axis = axis;
    for (const each of ["time", "passes"]) this.at(`axis-${each}`).setAttribute("aria-pressed", String(each === axis));
    this.drawCharts();
  }

  // At most every `CHARTS_EVERY` ms while a race runs; the last call always gets drawn.
  drawCharts() {
    if (this.at("figures").hidden) return;
    if (this.drawing) return void (this.again = true);
    this.drawing = true;
    const { plain, method } = this.lanes;
    const over = this.state !== "running";
    this.charts
      .draw({ plain, method, cap: this.cap ?? 1, over, name: this.name ?? "", shown: (source) => this.legend.shown(source) })
      .catch((error) => (this.at("figures").dataset.problem = error.message))
      .finally(() => setTimeout(() => {
        this.drawing = false;
        if (this.again) this.again = false, this.drawCharts();
        else this.charts.light(this.lit ?? this.chosen);
      }, over ? 0 : CHARTS_EVERY));
  }

  announce(now = false) {
    if (!now && performance.now() - (this.spoken ?? 0) < STATUS_EVERY) return;
    this.spoken = performance.now();
    const { plain, method } = this.lanes;
    if (this.state === "running")
      this.say(method.steps.length ? `${this.name}: ${plural(method.tokens, "token")} in ${seconds(method.seconds)}` : `Plain decoding: ${plural(plain.tokens, "token")} in ${seconds(plain.seconds)}`);
    else this.say([this.at("speedup").textContent, this.at("verdict").textContent, this.at("badge").textContent].join(" ") + ".");
  }

  say(text) {
    this.at("status").textContent = text;
  }
}

// The step that gained most; of several, the one with the bigger tree.
const busiest = (steps) => {
  const worth = ({ sources, tree }) => 1000 * sources.length + (tree?.tokens.length ?? 0) - (tree?.pool.length ?? 0);
  return steps.reduce((best, step, i) => (worth(step) > worth(steps[best]) ? i : best), 0);
};

function save(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
