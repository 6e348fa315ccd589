/** The Replay tab: recorded races to choose from, and a race view with a speed. */

import { button, byId, calm, find, make } from "../common/dom.js";
import { Fields } from "../common/fields.js";
import { RaceView } from "../race/race-view.js";

/** @import { Ask, Host, Look, Methods } from "../common/tab.js" */
/** @import { Refused, Snapshot } from "../stream/messages.js" */

/** @typedef {Snapshot & { name?: string }} Recording name: of one that comes with the page, not of the visitor's own */

const SPEEDS = new Map([
  ["1×", 1],
  ["4×", 4],
  ["Instant", Infinity],
]);

/**
 * races: titles by name.
 * @typedef {Methods & { legend: Look[], races: Record<string, string> }} Facts
 */

/** @param {Host<Facts>} host */
export function mount({ element, props, watch, facts, ask }) {
  const tab = new ReplayTab(find(element, ".stage"), facts, ask);
  watch("value", () => tab.take(JSON.parse(props.value)));
}

class ReplayTab {
  /**
   * @param {HTMLElement} host
   * @param {Facts} facts
   * @param {Ask} ask
   */
  constructor(host, facts, ask) {
    this.ask = ask;
    this.fields = new Fields(byId("replay-ask"), "replay-");
    this.speed = calm() ? Infinity : 1;
    this.choices = new Map(Object.entries(facts.races).map(([name, title]) => [name, this.choice(name, title)]));
    this.play = button("quiet", "Play", () => this.run());
    this.play.dataset.id = "replay-play";
    this.play.disabled = true;
    const picker = make("div", "picker");
    const stage = make("div", "stage");
    picker.append(this.list(), this.speeds());
    host.className = "host";
    host.append(picker, stage);
    this.view = new RaceView(stage, facts, { ask: () => {}, refuse: () => {}, steady: true });
    this.view.scoreboard.score("Replay");
    this.view.at("verdict").textContent = "Choose a recording or open a file";
    const [first] = this.choices.values();
    first?.click();
  }

  /**
   * @param {string} name
   * @param {string} title
   */
  choice(name, title) {
    return button("quiet", title, () => this.ask("pick", { name }));
  }

  list() {
    const box = make("div", "choices");
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "Recordings");
    box.append(...this.choices.values());
    return box;
  }

  speeds() {
    const box = make("div", "speeds");
    const group = make("span", "switch");
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", "Speed");
    for (const [name, speed] of SPEEDS) {
      const choice = button("", name, () => {
        this.speed = speed;
        for (const each of group.children) each.setAttribute("aria-pressed", String(each === choice));
        this.run();
      });
      choice.dataset.speed = name;
      choice.setAttribute("aria-pressed", String(speed === this.speed));
      group.append(choice);
    }
    box.append(this.play, group);
    return box;
  }

  run() {
    if (this.view.state === "done") this.view.replay(this.speed);
  }

  /** @param {Recording | Refused} message */
  take(message) {
    if (message.kind === "refused") {
      this.fields.refuse(message);
      return;
    }
    this.fields.clear();
    for (const [name, choice] of this.choices) choice.setAttribute("aria-pressed", String(name === message.name));
    this.view.take(message);
    this.play.disabled = false;
    this.run();
  }
}
