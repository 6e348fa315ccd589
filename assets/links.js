// One step, outlined wherever it is drawn: in the text, in the bars, and opened in the step panel.
import { count, list, make, plural } from "./format.js";

export class Links {
  constructor(at, looks, charts, inside) {
    Object.assign(this, { at, looks, charts, inside, lane: null, words: {}, lit: null, chosen: null });
    const text = at("text-method");
    const stepOf = (event) => event.target.closest(".step")?.dataset.step;
    text.addEventListener("mouseover", (event) => this.light(stepOf(event) ?? null, event));
    text.addEventListener("mouseleave", () => this.light(null));
    text.addEventListener("click", (event) => stepOf(event) !== undefined && this.look(Number(stepOf(event))));
    at("step-slider").addEventListener("input", (event) => this.look(Number(event.target.value) - 1));
  }

  // A new race: nothing can be opened until `open`.
  close(lane) {
    Object.assign(this, { lane, lit: null, chosen: null, ready: false });
    this.at("inside").hidden = true;
    this.at("tip").hidden = true;
  }

  open(words) {
    if (!this.lane.steps.length) return;
    Object.assign(this, { words, ready: true });
    this.at("inside").hidden = false;
    this.at("step-slider").max = this.lane.steps.length;
    this.look(busiest(this.lane.steps));
  }

  light(step, event = null) {
    step = step === null ? null : Number(step);
    if (step === this.lit || !this.lane) return;
    this.lane.mark(this.lit, "lit", false);
    this.lit = step;
    this.lane.mark(step, "lit", true);
    this.frame();
    this.tip(step, event);
  }

  look(step) {
    if (!this.ready || !this.lane.steps[step]) return;
    this.lane.mark(this.chosen, "chosen", false);
    this.chosen = step;
    this.lane.mark(step, "chosen", true);
    this.at("step-slider").value = step + 1;
    this.at("step-slider").setAttribute("aria-valuetext", `step ${step + 1}`);
    this.inside.show(this.lane, step, this.words);
    this.frame();
  }

  frame() {
    this.charts.light(this.lit ?? this.chosen);
  }

  tip(step, event) {
    const tip = this.at("tip");
    const facts = step === null ? null : this.lane.steps[step];
    tip.hidden = !facts;
    if (!facts) return;
    const given = (source) => facts.sources.filter((each) => each === source).length;
    const parts = this.looks.filter(({ source }) => given(source)).map(({ source, name }) => `${name.toLowerCase()} ${given(source)}`);
    tip.replaceChildren(make("b", "", `Step ${count(step + 1)}: ${plural(facts.sources.length, "token")}`), make("span", "", list(parts)));
    const box = event ? event.target.closest(".step").getClientRects()[0] : this.charts.band.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(innerWidth - tip.offsetWidth - 8, box.left))}px`;
    tip.style.top = `${Math.max(8, box.top - tip.offsetHeight - 6)}px`;
  }
}

// The step that gained most; of several, the one with the bigger tree.
function busiest(steps) {
  const worth = ({ sources, tree }) => 1000 * sources.length + (tree ? tree.tokens.length - tree.pool.length : 0);
  return steps.reduce((best, step, i) => (worth(step) > worth(steps[best]) ? i : best), 0);
}
