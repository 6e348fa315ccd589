/** The Chat tab: turns of a conversation, each answer coloured by source, with a readout of what it gained. */

import { TurnView } from "../chat/turn-view.js";
import { AfterBegun } from "../common/after-begun.js";
import { byId, fill, find } from "../common/dom.js";
import { Fields } from "../common/fields.js";
import { building, plural, seconds, sentence, speed } from "../common/format.js";
import { oneClick } from "../common/one-click.js";
import { handOver, keepFocus } from "../common/steady-focus.js";
import { keepCutOff, leaveWord, stored, takeCutOff, WAITED } from "../race/cut-off.js";
import { Legend } from "../race/legend.js";
import { KEY } from "../race/template.js";
import { EMPTY, reduce } from "../stream/reducer.js";

/** @import { Measured } from "../chat/turn-view.js" */
/** @import { Ask, Host, Look, Methods } from "../common/tab.js" */
/** @import { Back, Building, End, Left, Readout, Refused, RunMessage, Waiting } from "../stream/messages.js" */
/** @import { Stream, Turn } from "../stream/reducer.js" */

const HINT = `Every answer is decoded with guesses and coloured by who guessed. The whole conversation feeds the
dictionaries, so later turns find more to copy, and what was read for one turn stays in the cache for the next.`;
const LOST = "The page was left or lost its connection";
const CUT_OFF = `${LOST} while an answer was written, so that conversation has ended.`;
const GONE = `The conversation before is not kept any more, for many others came since; this is the first message of
a new one.`;
const RACED = "raced";
const MEASURING = "Measuring plain decoding";
/** @type {Record<string, string>} by the word that was left; an answer leaves its link */
const CUT_SHORT = {
  [WAITED]: `${LOST} while you waited for the model, so that conversation has ended.`,
  [RACED]: `${LOST} while a turn was raced, so that conversation has ended.`,
};
/** @type {Record<string, string>} what is said of an answer without an end, by the state of its turn */
const NO_END = { stopped: "Stopped.", failed: "Broke off before its end." };
/** @type {Record<string, string>} what is left after a message of this kind, where a word is */
const WORDS = { waiting: WAITED, measuring: RACED };
const TEMPLATE = `
<p class="key" data-id="key" hidden>${KEY}</p>
<div class="legend" data-id="legend" role="group" aria-label="Colours by source"></div>
<div class="talk" data-id="talk" role="log" aria-label="Conversation" aria-live="off"></div>
<p class="hero-hint" data-id="hint">${HINT}</p>
<footer class="end"><span data-id="rate"></span><span class="actions">
  <button type="button" class="quiet" data-id="renew">Measure plain decoding again</button>
  <button type="button" class="quiet" data-id="race" hidden>Race the last turn</button>
  <button type="button" class="quiet" data-id="back" hidden>Edit the last message</button>
  <button type="button" class="quiet" data-id="clear" hidden>New conversation</button></span></footer>
<p class="unseen" role="status" data-id="status"></p>`;

/**
 * Plain decoding's rate in tokens a second, after so many tokens of context.
 * @typedef {{ plain: number, context: number }} Rate
 */

/**
 * note: why answers come without colours, "" where they have them. examples: why each is worth trying.
 * @typedef {Methods & Rate & { legend: Look[], note: string, examples: string[] }} Facts
 */

/** @typedef {{ kind: "rate" } & Rate} RateMessage */
/** @typedef {{ kind: "measuring" | "measured", turn: number } & Measured} MeasuredMessage */
/** @typedef {Refused | Waiting | Building | Left | RateMessage | MeasuredMessage | RunMessage} Message */

/** @param {Host<Facts>} host */
export function mount({ element, props, watch, facts, ask }) {
  const tab = new ChatTab(find(element, ".stage"), facts, ask);
  watch("value", () => tab.take(JSON.parse(props.value)));
}

class ChatTab {
  /**
   * @param {HTMLElement} stage
   * @param {Facts} facts
   * @param {Ask} ask
   */
  constructor(stage, facts, ask) {
    this.stage = stage;
    this.facts = facts;
    this.ask = ask;
    /** @type {Stream} */
    this.stream = EMPTY;
    /** @type {TurnView[]} */
    this.views = [];
    this.rate = ""; // what the line at the end says while nothing else is to be said
    this.at = fill(stage, TEMPLATE);
    this.clearing = new AfterBegun(() => ask("clear"));
    this.fields = new Fields(byId("chat-ask"), "chat-");
    this.legend = new Legend(this.at("legend"), stage, facts.legend, () => {});
    this.fields.explain(facts.examples);
    this.listen();
    this.clear();
    this.showRate(facts);
    this.word = ""; // of CUT_SHORT, for what goes on beside the answers
    const lost = stored((store) => takeCutOff(store, "chat"));
    if (lost) this.fields.refuse({ field: "", text: CUT_SHORT[lost] ?? CUT_OFF });
  }

  listen() {
    this.at("renew").addEventListener("click", () => {
      this.say(MEASURING);
      this.ask("renew");
    });
    byId("stage-chat").addEventListener("spectra-failed", () => {
      if (this.at("rate").textContent === MEASURING) this.say("");
    });
    this.at("race").addEventListener("click", () => this.ask("race"));
    this.at("back").addEventListener("click", () => {
      if (this.stage.dataset.state !== "running") this.ask("back");
    });
    this.at("clear").addEventListener("click", () => this.clearing.request());
    oneClick(byId("chat-go"));
    byId("chat-go").addEventListener("spectra-failed", () => {
      if (byId("chat-go").matches(":enabled")) this.clearing.told();
    });
    byId("chat-go").addEventListener("click", () => {
      this.fields.clear();
      this.clearing.ask();
    });
    this.fields.onEnter("prompt", () => {
      if (byId("chat-go").matches(":enabled")) this.clearing.ask();
    });
    handOver("#chat-go", byId("chat-stop"));
    addEventListener("pagehide", () => stored((store) => this.keep(store)));
  }

  /**
   * What the next load of the page is to tell of what waits or runs.
   * @param {Storage} store
   */
  keep(store) {
    if (this.word) leaveWord(store, "chat", this.word);
    else keepCutOff(store, this.stream.turns.at(-1), "chat");
  }

  /** @param {Message} message */
  take(message) {
    this.handle(message);
    if (message.kind !== "rate") this.clearing.told();
  }

  /** @param {Message} message */
  handle(message) {
    this.word = WORDS[message.kind] ?? "";
    switch (message.kind) {
      case "refused":
        this.say("");
        this.fields.refuse(message);
        return;
      case "waiting":
        return this.say(`Waiting for the model: ${plural(message.ahead, "visitor")} before you.`);
      case "building":
        return this.say(`${sentence(building(message))}.`);
      case "left":
        return this.say("");
      case "rate":
        return this.showRate(message);
      case "measuring":
      case "measured":
        return this.measure(message);
      default:
        return this.follow(message);
    }
  }

  /** @param {RunMessage} message */
  follow(message) {
    const before = this.stream;
    this.stream = reduce(before, message);
    if (this.stream === before) return;
    if (this.stream.behind) this.ask("resync");
    else if (message.kind === "clear") this.beginAnew();
    else if (message.kind === "back") this.back(message);
    else this.show(before.turns.at(-1));
    const [was, first] = [before.turns[0], this.stream.turns[0]];
    if (was && first && was.run !== first.run) this.fields.refuse({ field: "", text: GONE });
  }

  get promptBox() {
    return this.fields.box("prompt")?.querySelector("textarea") ?? null;
  }

  /** As before the first turn. */
  clear() {
    this.drop(0);
    this.at("hint").hidden = false;
    this.say("");
    this.stage.dataset.state = "empty";
    delete this.stage.dataset.run;
    this.at("key").hidden = true;
    for (const id of ["race", "back", "clear"]) this.at(id).hidden = true;
    for (const id of ["renew", "legend"]) this.at(id).hidden = Boolean(this.facts.note);
    if (this.facts.note) this.at("hint").textContent = this.facts.note;
    this.legend.show(null);
  }

  /** The visitor asked for a new conversation. */
  beginAnew() {
    keepFocus(
      this.stage,
      () => this.clear(),
      () => this.promptBox,
    );
  }

  /** @param {number} from the first turn that goes */
  drop(from) {
    for (const view of this.views.splice(from)) view.box.remove();
  }

  /**
   * The last turn was taken back, or refused.
   * @param {Back} message
   */
  back({ problem }) {
    const { turns } = this.stream;
    const last = turns.at(-1);
    this.drop(turns.length);
    this.say("");
    if (last) {
      Object.assign(this.stage.dataset, { run: last.run, state: last.state });
      this.showLegend();
    } else this.clear();
    this.at("race").hidden = !last?.readout?.plain;
    this.promptBox?.focus();
    if (problem) this.fields.refuse(problem);
  }

  /** @param {Turn | undefined} before the last turn as it was */
  show(before) {
    const place = this.stream.turns.length - 1;
    const turn = this.stream.turns[place];
    const silent = !before?.lanes.method.steps.length; // its datastore may have been built
    if (silent && (turn.end || turn.lanes !== before?.lanes)) this.say("");
    if (turn.begin !== before?.begin) this.begin(turn, place);
    if (turn.lanes !== before?.lanes) {
      this.views[place].lane.show(turn.lanes.method);
      this.showLegend();
    }
    if (turn.end && turn.end !== before?.end) this.end(turn, turn.end);
  }

  /**
   * @param {Turn} turn
   * @param {number} place
   */
  begin({ run, state, begin }, place) {
    this.fields.clear();
    this.drop(place);
    Object.assign(this.stage.dataset, { run, state });
    const view = new TurnView(begin.link.prompt, begin.names.method);
    this.views.push(view);
    this.at("talk").append(view.box);
    this.at("hint").hidden = true;
    if (!this.at("rate").textContent) this.say("");
    this.at("key").hidden = Boolean(this.facts.note);
    view.box.scrollIntoView({ block: "nearest" });
  }

  /**
   * @param {Turn} turn
   * @param {End} end
   */
  end({ state, readout, lanes }, { problem }) {
    const view = this.views[this.views.length - 1];
    this.stage.dataset.state = state;
    if (problem) this.fields.refuse(problem);
    this.at("clear").hidden = false;
    this.at("back").hidden = false;
    this.at("race").hidden = !readout?.plain;
    const cut = lanes.method.steps.at(-1)?.finish ? "" : (NO_END[state] ?? "");
    const wrote = readout ? this.readOut(view, readout) : "";
    if (cut) view.cutShort(cut);
    if (readout || cut) this.at("status").textContent = [wrote, cut].filter(Boolean).join(". ");
  }

  /**
   * @param {TurnView} view
   * @param {Readout} readout
   * @returns {string} the line about it
   */
  readOut(view, readout) {
    if (this.facts.note) {
      view.rate(readout);
      return `${view.name}: ${view.note.textContent}`;
    }
    view.estimate(readout);
    this.setRate(readout); // any visitor may have measured it again since the page was made
    return `${view.name} wrote ${plural(readout.tokens, "token")} in ${seconds(readout.seconds)}`;
  }

  /** Tokens of the whole conversation, by source. */
  showLegend() {
    const steps = this.stream.turns.flatMap((turn) => turn.lanes.method.steps);
    this.legend.show({ steps, figures: null, of: "guessed" });
  }

  /** @param {MeasuredMessage} message */
  measure(message) {
    const view = this.views[message.turn];
    if (!view) return;
    this.say("");
    if (message.kind === "measuring") view.measuring();
    else this.at("status").textContent = view.measured(message);
  }

  /** @param {Rate} rate */
  showRate(rate) {
    this.setRate(rate);
    this.say("");
  }

  /**
   * What is always true from now on. A message about something else stays.
   * @param {Rate} rate
   */
  setRate({ plain, context }) {
    const quiet = this.at("rate").textContent === this.rate;
    const measured = `${speed(plain)} tokens/s after ${plural(context, "token")} of context`;
    this.rate = plain
      ? `Estimates compare with plain decoding as measured here: ${measured}.`
      : this.facts.note || "Plain decoding was not measured yet.";
    if (quiet) this.say("");
  }

  /** @param {string} text "" for what is always true */
  say(text) {
    const hinted = this.facts.note && !this.at("hint").hidden; // the hint says the same
    this.at("rate").textContent = text || (hinted ? "" : this.rate);
  }
}
