// One answer as text. Steps are appended as they come; `reach(time)` fades what the clock has not come to yet.
import { make } from "./format.js";

export class Lane {
  // marked: whether steps are told apart by hairline and tint.
  constructor(box, marked = false) {
    this.box = box;
    this.marked = marked;
    this.clear();
  }

  clear() {
    this.steps = [];
    this.ends = [0]; // seconds at which step i - 1 ended; ends[0] is the start
    this.totals = [0]; // tokens after that step
    this.spans = [];
    this.owners = []; // [source, step] of tokens whose text is not complete yet
    this.reached = 0;
    this.line = ""; // the line being written, and its tokens
    this.row = [];
    this.fenced = false;
    this.text = "";
    this.starts = []; // length of the text before each step
    this.box.replaceChildren();
    this.box.scrollTop = 0;
  }

  get tokens() {
    return this.totals.at(-1);
  }

  get seconds() {
    return this.ends.at(-1);
  }

  extend(steps) {
    if (!steps.length) return;
    if (!this.steps.length) this.box.replaceChildren();
    const batch = document.createDocumentFragment();
    for (const step of steps) batch.append(...this.add(step));
    this.box.append(batch);
    this.reached = this.steps.length;
  }

  add(step) {
    const index = this.steps.length;
    this.steps.push(step);
    this.starts.push(this.text.length);
    if (index === 0) this.ends[0] = step.prefill ?? 0;
    this.ends.push(this.seconds + step.seconds);
    this.totals.push(this.tokens + step.sources.length);
    this.owners.push(...step.sources);
    const span = make("span", "step");
    span.dataset.step = index;
    this.spans.push(span);
    // The space before a step's first word stays outside, so that neither hairline nor tint hangs at a line's end.
    const gap = this.marked ? (step.pieces[0]?.[1].match(/^ +(?=\S)/)?.[0] ?? "") : "";
    for (const [tokens, text] of step.pieces)
      span.append(this.piece(this.owners.splice(0, tokens), text, span.firstChild ? 0 : gap.length));
    if (step.finish === "eos") span.lastChild?.classList.add("last");
    if (!gap) return [span];
    return [make("span", span.firstChild.classList.contains("code") ? "code" : "", gap), span];
  }

  piece(sources, text, skip) {
    const token = make("i", `t ${sources.at(-1)}`, text.slice(skip));
    token.dataset.sources = sources.join(",");
    this.row.push(token);
    const before = this.fenced;
    for (const part of text.split(/(\n)/)) {
      if (part !== "\n") this.line += part;
      else {
        if (this.line.startsWith("```")) this.fenced = !this.fenced;
        this.line = "";
        this.row = [token];
      }
    }
    if (this.line.startsWith("```")) for (const each of this.row) each.classList.add("code");
    if (before || this.fenced) token.classList.add("code");
    if (text.startsWith("\n")) token.classList.add("break");
    this.text += text;
    return token;
  }

  // Seconds until `tokens` tokens were out; a step's tokens come out evenly over its time.
  secondsTo(tokens) {
    const step = this.totals.findIndex((total) => total >= tokens);
    if (step < 1) return this.ends[0];
    const part = (tokens - this.totals[step - 1]) / (this.totals[step] - this.totals[step - 1]);
    return this.ends[step - 1] + part * (this.ends[step] - this.ends[step - 1]);
  }

  reach(time) {
    let at = this.reached;
    while (at < this.spans.length && this.ends[at + 1] <= time) this.spans[at++].classList.remove("ahead");
    while (at > 0 && this.ends[at] > time) this.spans[--at].classList.add("ahead");
    if (at !== this.reached) {
      this.reached = at;
      this.follow();
    }
  }

  // Keep the newest text in view, unless the reader is holding the lane.
  follow() {
    if (this.box.matches(":hover, :focus")) return;
    const last = this.spans[this.reached - 1];
    this.box.scrollTop = last ? last.offsetTop + last.offsetHeight - this.box.clientHeight + 24 : 0;
  }

  mark(step, name, on) {
    this.spans[step]?.classList.toggle(name, on);
  }

  // Outline the piece that holds output token `index`.
  flag(index) {
    let seen = 0;
    for (const token of this.box.querySelectorAll(".t")) {
      seen += token.dataset.sources.split(",").length;
      if (seen > index) return token.classList.add("differs");
    }
  }
}
