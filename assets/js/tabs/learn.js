/** The Learn tab: short chapters on the visitor's own last race, each with a button that shows the thing itself. */

import { button, find, make } from "../common/dom.js";
import { prose } from "../common/format.js";
import { chapters } from "../learn/chapters.js";
import { WhatIf } from "../learn/what-if.js";
import { shared } from "../race/shared.js";
import { EMPTY, reduce } from "../stream/reducer.js";

/** @import { Host } from "../common/tab.js" */
/** @import { Chapter, Facts, Pointer } from "../learn/chapters.js" */
/** @import { Turn } from "../stream/reducer.js" */

const LEAD = prose`A language model writes tokens, words or parts of words, and reads all of itself for each one.
  SPECTRA guesses several tokens ahead and has them checked in one go. `;
const NO_RACE = "Run a race in the Race tab first: the chapters take their examples from it.";
const NOT_OVER = "The chapters take their examples from the race in the Race tab as soon as it is over.";

/** @param {Host<Facts>} host */
export function mount({ element, facts }) {
  const stage = find(element, ".stage");
  const tab = new LearnTab(stage, facts);
  // Drawn anew whenever the tab is opened: by then there may be another race.
  new IntersectionObserver(([entry]) => entry.isIntersecting && tab.opened()).observe(stage);
}

class LearnTab {
  /**
   * @param {HTMLElement} stage
   * @param {Facts} facts
   */
  constructor(stage, facts) {
    this.stage = stage;
    this.facts = facts;
    /** @type {string | null | undefined} the race that the chapters speak of; undefined before the first drawing */
    this.run = undefined;
    this.drafts = facts.drafts ? reduce(EMPTY, facts.drafts).turns[0] : null;
    /** @type {Facts} those of the chapters that are drawn */
    this.drawn = facts;
    /** @type {WhatIf | null} */
    this.whatIf = null;
    /** Tells of a race that begins or ends. */
    this.watch = new MutationObserver(() => stage.checkVisibility() && this.draw());
    stage.className = "learn";
    this.draw();
  }

  opened() {
    if (shared.race) this.watch.observe(shared.race.stage, { attributeFilter: ["data-state"] });
    this.draw();
  }

  draw() {
    const turn = shared.race?.turn;
    const race = turn?.end && turn.lanes.method.steps.length ? turn : null;
    const facts = { ...this.facts, ...shared.model };
    if (race && race.run === this.run && facts.cost === this.drawn.cost) return;
    this.run = race?.run;
    if (facts.cost !== this.drawn.cost || !this.whatIf) this.whatIf = facts.cost.length ? new WhatIf(facts.cost) : null;
    this.drawn = facts;
    const whose = race?.begin.recorded ? "the recorded race" : "your last race";
    const none = turn?.state === "running" ? NOT_OVER : NO_RACE;
    const source = race ? `Short chapters tell how; the examples are from ${whose} in the Race tab.` : none;
    const list = make("ol", "chapters");
    for (const chapter of chapters(facts, race, this.drafts)) list.append(this.chapter(chapter, race));
    const whatIf = this.whatIf ? [this.whatIf.box] : [];
    this.stage.replaceChildren(make("p", "lead", LEAD + source), ...whatIf, list);
    const here = !race?.begin.recorded && (!shared.model || shared.model.name === shared.raced);
    this.whatIf?.show(race, here);
  }

  /**
   * @param {Chapter} chapter
   * @param {Turn | null} race
   */
  chapter({ title, text, figure, pointer }, race) {
    const item = make("li", "card");
    item.append(make("h2", "", title), ...text.map((line) => make("p", "", line)));
    if (figure) item.append(figure);
    if (pointer && race) item.append(button("quiet", pointer.name, () => this.point(pointer)));
    return item;
  }

  /**
   * Go to the Race tab and put a frame around the part that was spoken of, from which the keyboard then goes on.
   * @param {Pointer} pointer
   */
  point({ selector, prepare }) {
    find(document, "#tabs [role=tab]").click();
    for (const node of document.querySelectorAll(".pointed")) node.classList.remove("pointed");
    requestAnimationFrame(() => {
      if (shared.race) prepare?.(shared.race);
      /** @type {HTMLElement | null} */
      const node = document.querySelector(selector);
      if (!node) return;
      node.tabIndex = -1;
      node.addEventListener("blur", () => node.removeAttribute("tabindex"), { once: true });
      node.focus({ preventScroll: true });
      node.classList.add("pointed");
      node.scrollIntoView({ block: "center" });
      const unpoint = () => node.classList.remove("pointed");
      setTimeout(() => document.addEventListener("pointerdown", unpoint, { once: true }), 0);
    });
  }
}
