// The Learn tab: six short chapters on the visitor's own last race, each with a button that shows the thing itself.
import { chapters } from "./chapters.js";
import { make } from "./format.js";

export function mount({ element, facts }) {
  new Learn(element.querySelector(".stage"), facts);
}

class Learn {
  constructor(stage, facts) {
    Object.assign(this, { stage, facts });
    stage.className = "learn";
    this.draw();
    // Drawn anew whenever the tab is opened: by then there may be another race.
    new IntersectionObserver(([entry]) => entry.isIntersecting && this.draw()).observe(stage);
  }

  get race() {
    return document.getElementById("stage-race")?.querySelector(".stage")?.parentElement.race?.show;
  }

  draw() {
    const { race } = this;
    const ready = race && race.state !== "empty" && race.state !== "running" && race.lanes.method.steps.length > 0;
    if (ready && race.run === this.run) return;
    this.run = ready ? race.run : null;
    const head = make("p", "lead", "A language model writes tokens, words or parts of words, and reads all of itself for each one. SPECTRA guesses several tokens ahead and has them checked in one go. " + (ready
      ? `Six short chapters tell how; the examples are from ${race.recorded ? "the recorded race" : "your last race"} in the Race tab.`
      : "Run a race in the Race tab first: the chapters take their examples from it."));
    const list = make("ol", "chapters");
    for (const chapter of chapters(this.facts, ready ? race : null)) list.append(this.chapter(chapter, ready));
    this.stage.replaceChildren(head, list);
  }

  chapter({ title, text, figure, show }, ready) {
    const item = make("li", "card");
    item.append(make("h2", "", title), ...text.map((line) => make("p", "", line)));
    if (figure) item.append(figure);
    if (show && ready) {
      const button = make("button", "quiet", show.name);
      button.type = "button";
      button.addEventListener("click", () => this.point(show));
      item.append(button);
    }
    return item;
  }

  // Go to the Race tab and put a frame around the part that was spoken of.
  point({ find, before }) {
    document.querySelector("#tabs [role=tab]").click();
    for (const node of document.querySelectorAll(".pointed")) node.classList.remove("pointed");
    requestAnimationFrame(() => {
      before?.(this.race);
      const node = document.querySelector(find);
      if (!node) return;
      node.classList.add("pointed");
      node.scrollIntoView({ block: "center" });
      const gone = () => node.classList.remove("pointed");
      setTimeout(() => document.addEventListener("pointerdown", gone, { once: true }), 0);
    });
  }
}
