/** The Race tab: its form, its buttons and the race view under them, which opens on a recorded race. */

import { AfterBegun } from "../common/after-begun.js";
import { byId, find, make } from "../common/dom.js";
import { Fields } from "../common/fields.js";
import { building, plural } from "../common/format.js";
import { oneClick } from "../common/one-click.js";
import { save } from "../common/save.js";
import { handOver, keepFocus } from "../common/steady-focus.js";
import { keepCutOff, leaveWord, queryOf, stored, takeCutOff, WAITED } from "../race/cut-off.js";
import { RaceView } from "../race/race-view.js";
import { shared } from "../race/shared.js";

/** @import { Ask, Host, Look, Methods } from "../common/tab.js" */
/** @import { Building, FileMessage, Left, Refused, RunMessage, Snapshot, Waiting } from "../stream/messages.js" */

/** @typedef {{ model: string, badges: string[] }} Model */

/**
 * examples: why each prompt is worth trying. changing: another model may be in use by now, or more be known of it.
 * recorded: the race that greets a visitor.
 * @typedef {Model & Methods & { legend: Look[], examples: string[], changing: boolean }} Given
 * @typedef {Given & { recorded: Snapshot | null }} Facts
 */

/** @typedef {{ kind: "loading", model: string }} Loading */
/** @import { Measured } from "../race/shared.js" */
/** @typedef {{ kind: "model" } & Model & Measured} Ready */
/** @typedef {Loading | Ready | Refused | FileMessage | Waiting | Building | Left | RunMessage} Message */

const OF_NO_RUN = new Set(["loading", "model", "file"]);

/** @param {Host<Facts>} host */
export function mount({ element, props, watch, facts, ask }) {
  const tab = new RaceTab(element, facts, ask);
  watch("value", () => tab.take(JSON.parse(props.value)));
  window.dispatchEvent(new Event("spectra-mounted")); // for start/first.js
}

class RaceTab {
  /**
   * @param {HTMLElement} element
   * @param {Facts} facts
   * @param {Ask} ask
   */
  constructor(element, facts, ask) {
    this.facts = facts;
    this.ask = ask;
    /** @type {string | null} the verdict that "waiting" stands in place of */
    this.verdict = null;
    this.clearing = new AfterBegun(() => ask("clear"));
    this.fields = new Fields(byId("ask"));
    this.view = new RaceView(find(element, ".stage"), facts, { ask, refuse: (problem) => this.fields.refuse(problem) });
    shared.race = this.view;
    this.showModel(facts);
    this.fields.explain(facts.examples);
    this.listen();
    if (facts.recorded) this.view.take(facts.recorded);
    this.tellCutOff();
    if (facts.changing) ask("opened");
  }

  listen() {
    const { at } = this.view;
    at("download").addEventListener("click", () => this.ask("download"));
    for (const id of ["again", "alone"]) {
      at(id).addEventListener("click", () => {
        this.wait();
        this.ask(id);
      });
    }
    at("clear").addEventListener("click", () => this.clearing.request());
    at("link").addEventListener("click", () => this.copyLink());
    addEventListener("pagehide", () => stored((store) => this.keep(store)));
    oneClick(byId("go"));
    byId("go").addEventListener("click", () => this.wait());
    byId("go").addEventListener("spectra-failed", () => this.failed());
    handOver("#go", byId("stop"));
    this.fields.onEnter("prompt", () => this.wait());
  }

  /** @param {Model} model */
  showModel({ model, badges }) {
    const items = [model, ...badges].map((text) => make("li", "", text));
    document.querySelector(".top .badges")?.replaceChildren(...items);
  }

  /**
   * What the next load of the page is to tell of a race that waits or runs.
   * @param {Storage} store
   */
  keep(store) {
    if (this.verdict === null) keepCutOff(store, this.view.turn);
    else leaveWord(store, "race", WAITED);
  }

  /** gradio loads the page again when a lost connection is back. */
  tellCutOff() {
    const link = stored((store) => takeCutOff(store));
    if (!link) return;
    if (link === WAITED) {
      const text = "The page was left or lost its connection while a race waited for its turn, which is given up.";
      this.fields.refuse({ field: "", text });
      return;
    }
    const again = make("a", "", "Fill in the form as it was");
    again.href = link;
    const text = "The page was left or lost its connection while a race ran, so that race has ended.";
    const without = new URLSearchParams(link).has("prompt") ? "" : ", without the prompt: it is too long for a link";
    this.fields.refuse({ field: "", text }).append(" ", again, without);
  }

  /** @param {Message} message */
  take(message) {
    this.handle(message);
    if (!OF_NO_RUN.has(message.kind)) this.clearing.told();
  }

  /** @param {Message} message */
  handle(message) {
    switch (message.kind) {
      case "loading":
        this.fields.clear();
        return this.showModel({ model: `Loading ${message.model} …`, badges: [] });
      case "model":
        return this.ready(message);
      case "refused":
        return this.refused(message);
      case "file":
        return save(message.name, message.text);
      case "waiting":
        return this.queued(message.ahead);
      case "building":
        return this.view.tell(building(message), building({ ...message, total: 0 }));
      case "left":
        return this.restore();
      default:
        return this.follow(message);
    }
  }

  /** @param {RunMessage} message */
  follow(message) {
    const { kind } = message;
    if (kind === "begin") shared.raced = this.facts.model;
    if (kind === "begin" || kind === "clear") this.fields.clear();
    if (["begin", "snapshot", "clear"].includes(kind)) this.verdict = null;
    if (kind !== "begin" && kind !== "clear") return this.view.take(message);
    const prompt = () => this.fields.box("prompt")?.querySelector("textarea") ?? null;
    const next = kind === "begin" ? () => byId("stop") : prompt;
    keepFocus(this.view.stage, () => this.view.take(message), next);
  }

  /** @param {Ready} chosen */
  ready({ model, badges, cost }) {
    if (model !== this.facts.model) this.view.say(`${model} is ready`);
    this.facts = { ...this.facts, model, badges };
    shared.model = { name: model, badges, cost };
    this.showModel(this.facts);
  }

  /** The button was pressed; the model may be busy with someone else. */
  wait() {
    const go = /** @type {HTMLButtonElement} */ (byId("go"));
    if (this.view.state === "running" || this.verdict !== null || go.disabled) return;
    this.fields.clear();
    this.clearing.ask();
    this.verdict = this.view.at("verdict").textContent;
    this.view.at("verdict").textContent = "waiting for the model …";
    this.view.say("Waiting for the model");
  }

  /** The server did not take what was asked: where no race waits or goes on, none does. */
  failed() {
    if (byId("go").matches(":disabled")) return;
    if (this.verdict !== null) this.restore();
    this.clearing.told();
  }

  /** @param {number} ahead */
  queued(ahead) {
    this.verdict ??= this.view.at("verdict").textContent;
    const text = `waiting for the model: ${plural(ahead, "visitor")} before you`;
    this.view.at("verdict").textContent = text;
    this.view.say(text);
  }

  restore() {
    if (this.verdict !== null) this.view.at("verdict").textContent = this.verdict;
    this.verdict = null;
    this.view.say("");
  }

  /** @param {Refused} problem */
  refused(problem) {
    if (problem.field === "model" || problem.field === "go") this.showModel(this.facts); // one may have been loading
    this.restore();
    this.fields.refuse(problem);
  }

  /** The address of this page with the form filled as this race was asked. */
  async copyLink() {
    const link = this.view.turn?.begin.link;
    if (!link) return;
    history.replaceState(null, "", `?${queryOf(link)}`);
    const copied = await copy(location.href);
    const without = new URLSearchParams(location.search).has("prompt") ? "" : ", without the prompt: it is too long";
    this.view.at("link").textContent = `${copied ? "Link copied" : "Link is in the address bar"}${without}`;
  }
}

/** @param {string} text */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // there is no clipboard without https, or it is refused
  }
}
