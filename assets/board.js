// The score: the big number, both bars on one clock, rates, badge and the line of fine print.
import { count, make, percent, plural, ratio, seconds, speed } from "./format.js";

export class Board {
  constructor(at) {
    this.at = at;
  }

  empty() {
    this.begin("SPECTRA");
    this.score("How fast?");
    this.at("verdict").textContent = "Press Race to measure it";
    for (const name of ["plain", "method"]) this.at(`bar-${name}`).style.transform = "scaleX(0)";
  }

  // A figure stands large, words less so.
  score(text) {
    this.at("speedup").textContent = text;
    this.at("speedup").parentElement.classList.toggle("words", /[a-z]/i.test(text));
  }

  begin(name) {
    this.name = name;
    this.at("who").textContent = this.at("title").textContent = name;
    for (const id of ["badge", "more", "rate-plain", "rate-method", "note-plain", "note-method", "fine"]) this.at(id).textContent = "";
    this.at("badge").className = "badge";
    this.score("1×");
  }

  // While a race runs: how far ahead the method is of plain decoding at the same number of tokens.
  live({ plain, method }) {
    const racing = method.steps.length > 0;
    this.at("note-method").textContent = racing ? "" : "its turn comes when plain is done";
    if (!racing) return void (this.at("verdict").textContent = "plain decoding goes first");
    const level = Math.min(plain.tokens, method.tokens);
    this.score(ratio(plain.secondsTo(level) / method.secondsTo(level)) + "×");
    this.at("verdict").textContent = `so far, after ${plural(level, "token")}`;
  }

  // Both lanes as they were `time` seconds after their start; `span` seconds fill a bar.
  clock(lanes, time, span) {
    for (const [name, lane] of Object.entries(lanes)) {
      lane.reach(time);
      const done = Math.min(time, lane.seconds);
      this.at(`bar-${name}`).style.transform = `scaleX(${span ? done / span : 0})`;
      if (!lane.steps.length) continue;
      const tokens = lane.totals[lane.reached];
      const rate = `${speed(done ? tokens / done : 0)} tokens/s, ${plural(lane.reached, "pass", "passes")}`;
      this.at(`rate-${name}`).replaceChildren(make("b", "", seconds(done)), ` ${rate}`);
      this.at(`note-${name}`).textContent = plural(tokens, "token");
    }
  }

  final({ plain, method, speedup, whole, same, differs, drawn }, state, recorded) {
    const word = { stopped: "Stopped", failed: "Ended early" }[state];
    if (!plain || !method) {
      this.at("verdict").textContent = plain ? `${this.name} had not begun: nothing to compare` : "nothing was written yet: nothing to compare";
      this.score(word ?? "No race");
      this.at("note-method").textContent = "";
      return;
    }
    const where = whole ? (recorded ? "in this recording" : "measured on this page") : `up to token ${count(Math.min(plain.tokens, method.tokens))}`;
    this.score(ratio(speedup) + "×");
    this.at("verdict").textContent = `${word ? `${word}: ` : ""}${speedup >= 1 ? "faster" : "the speed of plain decoding"}, ${where}`;
    const equal = differs === null;
    this.at("badge").className = `badge ${equal ? "same" : drawn ? "" : "differs"}`;
    this.at("badge").textContent = !equal
      ? drawn ? "Another draw of the same distribution" : `First difference at token ${count(differs + 1)}`
      : whole ? "Identical output" : `Identical for ${plural(same, "token")}`;
    const tau = make("b", "", `${ratio(method.tau)} tokens per forward pass (τ)`);
    this.at("more").replaceChildren(equal && whole ? `, all ${plural(same, "token")}. ` : ". ", tau, ".");
    const loops = method.distinct4 < 0.5 ? "it goes round in circles, which makes guessing easy" : "the lower, the more it repeats itself";
    this.at("fine").textContent =
      `First token after ${seconds(plain.first)} plain, ${seconds(method.first)} ${this.name}. ` +
      `Of the answer's runs of four tokens ${percent(method.distinct4)} are distinct: ${loops}.`;
  }
}
