// The Race tab: its form, its buttons and the stage under them. Starts with a recorded race, so that there is one to see.
import { Fields } from "./fields.js";
import { make, plural } from "./format.js";
import { save } from "./save.js";
import { Show } from "./show.js";

export function mount({ element, props, watch, facts, ask }) {
  const race = new Race(element.querySelector(".stage"), facts, ask);
  watch("value", () => race.take(JSON.parse(props.value)));
  element.race = race;
}

class Race {
  constructor(stage, facts, ask) {
    this.fields = new Fields(document.getElementById("ask"));
    this.show = new Show(stage, facts, { ask, refuse: (problem) => this.fields.refuse(problem.field, problem.text) });
    Object.assign(this, { ask, facts });
    const { examples, recorded } = facts;
    this.name(facts);
    this.fields.tell(examples);
    this.listen();
    if (recorded) this.show.take(recorded);
  }

  listen() {
    const { at } = this.show;
    at("download").addEventListener("click", () => this.ask("download"));
    at("again").addEventListener("click", () => (this.wait(), this.ask("again")));
    at("clear").addEventListener("click", () => this.ask("clear"));
    at("link").addEventListener("click", () => this.link());
    document.getElementById("go").addEventListener("click", () => this.wait());
    this.fields.box("prompt").addEventListener("keydown", ({ key, shiftKey }) => {
      if (key === "Enter" && !shiftKey) this.wait();
    });
  }

  name({ model, badges }) {
    document.querySelector(".top .badges")?.replaceChildren(...[model, ...badges].map((text) => make("li", "", text)));
  }

  take(message) {
    if (message.kind === "loading") return this.name({ model: `Loading ${message.model} …`, badges: [] });
    if (message.kind === "model") return this.renamed(message);
    if (message.kind === "refused") return this.refused(message);
    if (message.kind === "trace") return save(message.name, message.text);
    if (message.kind === "waiting") return this.queued(message.ahead);
    if (message.kind === "left") return this.restore();
    if (message.kind === "begin" || message.kind === "clear") this.fields.clear();
    if (message.kind === "clear") this.before = undefined;
    return this.show.take(message);
  }

  renamed({ model, badges }) {
    Object.assign(this.facts, { model, badges });
    this.fields.clear();
    this.name(this.facts);
    this.show.say(`${model} is ready`);
  }

  // The button was pressed; the model may be busy with someone else.
  wait() {
    const { show } = this;
    if (show.state === "running" || this.before !== undefined || document.getElementById("go").disabled) return;
    this.fields.clear();
    this.before = show.at("verdict").textContent;
    show.at("verdict").textContent = "waiting for the model …";
    show.say("Waiting for the model");
    show.begun = () => (this.before = undefined);
  }

  queued(ahead) {
    const text = `waiting for the model: ${plural(ahead, "visitor")} before you`;
    this.show.at("verdict").textContent = text;
    this.show.say(text);
  }

  restore() {
    if (this.before !== undefined) this.show.at("verdict").textContent = this.before;
    this.before = undefined;
    this.show.say("");
  }

  refused({ field, text }) {
    if (field === "model") this.name(this.facts);
    this.restore();
    this.fields.refuse(field, text);
  }

  // The address of this page with the form filled as this race was asked.
  async link() {
    const { link } = this.show;
    const query = new URLSearchParams();
    for (const name of ["prompt", "method", "max_new_tokens", "temperature", "top_p", "seed"])
      if (link[name] !== undefined) query.set(name, link[name]);
    history.replaceState(null, "", `?${query}`);
    const copied = await navigator.clipboard?.writeText(location.href).then(() => true, () => false);
    this.show.at("link").textContent = copied ? "Link copied" : "Link is in the address bar";
  }
}
