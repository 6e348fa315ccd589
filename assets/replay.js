// The Replay tab: recorded races to choose from, and a stage with a speed.
import { Fields } from "./fields.js";
import { calm, make } from "./format.js";
import { Show } from "./show.js";

const SPEEDS = [["1×", 1], ["4×", 4], ["Instant", Infinity]];

export function mount({ element, props, watch, facts, ask }) {
  const replay = new Replay(element.querySelector(".stage"), facts, ask);
  watch("value", () => replay.take(JSON.parse(props.value)));
  element.replay = replay;
}

class Replay {
  constructor(host, facts, ask) {
    this.fields = new Fields(document.getElementById("replay-ask"), "replay-");
    host.className = "host";
    const picker = make("div", "picker");
    picker.append(this.list(facts.races, ask), this.speeds());
    const stage = make("div", "stage");
    host.append(picker, stage);
    this.show = new Show(stage, facts, { ask: () => {}, refuse: () => {}, steady: true });
    this.show.board.score("Replay");
    this.show.at("verdict").textContent = "Choose a recording or open a file";
    this.play.disabled = true;
    const first = Object.keys(facts.races)[0];
    if (first) this.choices[0].click();
  }

  list(races, ask) {
    const box = make("div", "choices");
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "Recordings");
    for (const [name, title] of Object.entries(races)) {
      const button = make("button", "quiet", title);
      button.type = "button";
      button.addEventListener("click", () => {
        this.asked = button;
        ask("pick", { name });
      });
      box.append(button);
    }
    this.choices = [...box.children];
    return box;
  }

  speeds() {
    const box = make("div", "speeds");
    this.play = make("button", "quiet", "Play");
    this.play.type = "button";
    this.play.dataset.id = "replay-play";
    this.play.addEventListener("click", () => this.run());
    const group = make("span", "switch");
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", "Speed");
    this.chosen = calm() ? Infinity : 1;
    for (const [name, speed] of SPEEDS) {
      const button = make("button", "", name);
      button.type = "button";
      button.dataset.speed = name;
      button.setAttribute("aria-pressed", String(speed === this.chosen));
      button.addEventListener("click", () => {
        this.chosen = speed;
        for (const each of group.children) each.setAttribute("aria-pressed", String(each === button));
        this.run();
      });
      group.append(button);
    }
    box.append(this.play, group);
    return box;
  }

  run() {
    if (this.show.state === "done") this.show.replay(this.chosen);
  }

  take(message) {
    if (message.kind === "refused") return this.fields.refuse(message.field, message.text);
    this.fields.clear();
    for (const each of this.choices) each.setAttribute("aria-pressed", String(each === this.asked));
    this.asked = null; // what comes unasked is the visitor's own file
    this.show.take(message);
    this.play.disabled = false;
    this.run();
  }
}
