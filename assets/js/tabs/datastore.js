/** The Datastore tab: a card of each store, what follows a few words, and a store of the visitor's own. */

import { button, byId, find, make } from "../common/dom.js";
import { Fields } from "../common/fields.js";
import { count, duration, percent, plural, prose, visible } from "../common/format.js";
import { handOver, keepFocus } from "../common/steady-focus.js";
import { storeCard } from "../datastore/store-card.js";
import { leaveWord, stored, takeCutOff } from "../race/cut-off.js";

/** @import { Ask, Host } from "../common/tab.js" */
/** @import { Card } from "../datastore/store-card.js" */
/** @import { Problem, Refused } from "../stream/messages.js" */

const NONE = prose`No datastore fits this model. Make one above, for yourself; or build one with
  “python -m spectra.datastore build”: its folder under datastores/ is found at the next start.`;
const LOST = "The page was left or lost its connection";
/** @type {Record<string, string>} by what was there when the page went away */
const CUT_OFF = {
  build: `${LOST} while a datastore was made for you, so that work has ended.`,
  store: `${LOST}, so the datastore that was built for you is deleted.`,
};
const GONE = "Your datastore is deleted: another model was chosen, or others built theirs since. Build it again.";
const OWN_FIELDS = ["file", "keep", "prompts", "texts", "text-tokens", "go", ""];
const STARTS = "#field-own-file button, #own-library, #own-write, #store-offer-go";
/** @type {Record<string, string>} */
const STEPS = {
  reading: "Reading the texts and leaving out what repeats",
  scoring: "The model reads each text once, to see which surprise it least",
  opening: "Putting the index in place",
};

/** @typedef {{ text: string, chance: number, count: number, match: number }} Continuation */
/** @typedef {{ kind: "answers", store: string, rows: Continuation[] }} Answers */
/** @typedef {{ kind: "queued", ahead: number }} Queued */
/** @typedef {{ kind: "building", what: string, done: number, total: number }} Building */
/**
 * left: seconds.
 * @typedef {{ kind: "writing", texts: number, of: number, tokens: number, left: number | null }} Writing
 */
/** @typedef {{ kind: "written", texts: number, of: number, tokens: number }} Written */
/**
 * The stores that fit the model in use. own: the visitor has one too.
 * @typedef {{ kind: "opened", stores: Card[], own: boolean }} Opened
 */
/** @typedef {{ kind: "built", card: Card }} Built */
/** @typedef {{ kind: "removed" } | { kind: "halted" }} Gone */
/** @typedef {Queued | Building | Writing | Written | Built | Gone} BuildMessage */
/** @typedef {Refused | Answers | Opened | BuildMessage} Message */

/** @param {Host<{ stores: Card[] }>} host */
export function mount({ element, props, watch, facts, ask }) {
  const tab = new DatastoreTab(find(element, ".stage"), facts.stores, ask);
  watch("value", () => tab.take(JSON.parse(props.value)));
}

class DatastoreTab {
  /**
   * @param {HTMLElement} stage
   * @param {Card[]} stores
   * @param {Ask} ask
   */
  constructor(stage, stores, ask) {
    this.stage = stage;
    this.ask = ask;
    this.ownFields = new Fields(byId("own-ask"), "own-");
    this.fields = new Fields(byId("store-ask"), "store-");
    this.own = make("section", "own-store");
    this.answers = make("section", "card answers");
    this.answers.hidden = true;
    this.status = make("p", "unseen");
    this.status.setAttribute("role", "status");
    const upload = document.querySelector("#own-ask input[type=file]");
    upload?.setAttribute("aria-label", "Text file to build a datastore from");
    handOver(STARTS, byId("own-stop"));
    this.shared = make("div");
    /** @type {string} */
    this.shown = "";
    stage.append(this.answers, this.own, this.shared, this.status);
    this.show(stores);
    this.kept = ""; // what is lost with this page, of CUT_OFF
    addEventListener("pagehide", () => stored((store) => this.kept && leaveWord(store, "datastore", this.kept)));
    const lost = stored((store) => takeCutOff(store, "datastore"));
    if (lost && Object.hasOwn(CUT_OFF, lost)) this.ownFields.refuse({ field: "", text: CUT_OFF[lost] });
  }

  /** @param {Card[]} stores those of the model in use */
  show(stores) {
    const shown = JSON.stringify(stores);
    if (shown === this.shown) return;
    this.shown = shown;
    this.stage.dataset.state = stores.length ? "done" : "empty";
    this.shared.replaceChildren(...(stores.length ? stores.map(storeCard) : [make("p", "hero-hint", NONE)]));
  }

  /** @param {Message} message */
  take(message) {
    if (message.kind === "opened") {
      this.show(message.stores);
      if (!message.own && this.own.querySelector(".store")) this.gone();
      return;
    }
    if (message.kind === "refused") {
      this.refused(message);
      return;
    }
    this.fields.clear();
    this.ownFields.clear();
    if (message.kind === "answers") this.answer(message);
    else this.follow(message);
  }

  /** @param {Problem} problem */
  refused(problem) {
    if (OWN_FIELDS.includes(problem.field)) {
      this.kept = this.own.querySelector(".store") ? "store" : "";
      this.own.querySelector(".progress")?.remove();
      this.ownFields.refuse(problem);
    } else this.fields.refuse(problem);
  }

  /** One's own store is no longer there. */
  gone() {
    this.own.querySelector(".store")?.remove();
    this.kept = this.own.querySelector(".progress") ? "build" : "";
    this.ownFields.refuse({ field: "", text: GONE });
  }

  /**
   * One's own store: how far its build is, then its card, then nothing again.
   * @param {BuildMessage} message
   */
  follow(message) {
    this.stage.dataset.building = message.kind;
    this.kept = this.keptAfter(message);
    switch (message.kind) {
      case "removed":
        keepFocus(
          this.own,
          () => this.own.replaceChildren(),
          () => byId("own-library"),
        );
        this.status.textContent = "Your datastore is deleted";
        break;
      case "halted":
        this.own.querySelector(".progress")?.remove();
        this.status.textContent = "Stopped; nothing was built";
        break;
      case "built":
        this.built(message.card);
        break;
      case "queued":
        this.progress(`Waiting for the model: ${plural(message.ahead, "visitor")} before you`);
        break;
      case "writing":
        this.progress(writing(message), message.texts, message.of, "The model writes");
        break;
      case "written":
        this.progress(`${plural(message.texts, "text")} written, ${plural(message.tokens, "token")}`);
        break;
      case "building":
        this.progress(STEPS[message.what] ?? message.what, message.done, message.total);
        break;
    }
  }

  /**
   * What would be lost with the page after a message.
   * @param {BuildMessage} message
   */
  keptAfter({ kind }) {
    if (kind === "built") return "store";
    if (kind === "removed") return "";
    if (kind === "halted") return this.own.querySelector(".store") ? "store" : "";
    return "build";
  }

  /** @param {Card} card */
  built(card) {
    const box = storeCard(card);
    const note = make("p", "yours", "Yours alone. Race, Chat and Compare guess from it too. ");
    note.append(button("quiet", "Delete it", () => this.ask("remove")));
    box.firstElementChild?.append(note);
    this.own.replaceChildren(box);
    this.status.textContent = `${card.name} is built: ${plural(card.kept.texts, "text")}`;
  }

  /**
   * @param {string} text
   * @param {number} [done]
   * @param {number} [total] 0 where it is not known
   * @param {string} [said] read aloud instead of a text that changes all the time
   */
  progress(text, done = 0, total = 0, said = text) {
    if (!this.own.querySelector(".progress")) this.own.prepend(progressBar());
    const label = find(this.own, ".progress span");
    const bar = /** @type {HTMLProgressElement} */ (find(this.own, "progress"));
    if (label.textContent !== text) {
      label.textContent = text;
      if (this.status.textContent !== said) this.status.textContent = said;
    }
    if (total) {
      bar.max = total;
      bar.value = Math.min(done, total);
    }
  }

  /** @param {Answers} answers */
  answer({ rows, store }) {
    const said = rows.length
      ? "Likeliest first. A match is what came before in both texts: the longer, the surer. · is a space, ↵ a line end."
      : "It has not seen these words, nor any end of them.";
    const list = make("ol");
    list.append(...rows.map(continuation));
    this.answers.replaceChildren(make("h2", "", `What “${store}” expects next`), make("p", "", said), list);
    this.answers.hidden = false;
    this.status.textContent = plural(rows.length, "continuation");
  }
}

/** @param {Writing} message */
function writing({ texts, of, tokens, left }) {
  const time = left === null ? "the first text will tell how long it takes" : `about ${duration(left)} left`;
  return `The model writes: ${count(texts)} of ${plural(of, "text")}, ${plural(tokens, "token")}, ${time}`;
}

function progressBar() {
  const bar = make("p", "card progress");
  const meter = make("progress");
  meter.setAttribute("aria-label", "How far the build is");
  bar.append(make("span"), meter);
  return bar;
}

/** @param {Continuation} row */
function continuation({ text, chance, count, match }) {
  const item = make("li");
  const bar = make("span", "chance");
  const fill = make("i");
  const seen = `seen ${plural(count, "time")}, a match of ${plural(match, "token")}`;
  fill.style.width = `${100 * chance}%`;
  bar.append(fill);
  item.append(bar, make("b", "", percent(chance)), make("code", "", visible(text)), make("small", "", seen));
  return item;
}
