// A button for every source: its line and tint, how many tokens it gave, how many of its guesses held. Toggles its colour.
import { count, make, percent } from "./format.js";

export class Legend {
  constructor(box, stage, looks, changed) {
    this.stage = stage;
    this.changed = changed;
    this.chips = new Map();
    for (const look of looks) {
      const chip = make("button", `chip ${look.source}`);
      chip.type = "button";
      chip.title = look.meaning;
      chip.setAttribute("aria-pressed", "true");
      chip.append(make("i", "swatch"), make("span", "", look.name), make("b"), make("small"));
      chip.addEventListener("click", () => this.toggle(look.source));
      this.chips.set(look.source, chip);
      box.append(chip);
    }
  }

  shown(source) {
    return this.chips.get(source).getAttribute("aria-pressed") === "true";
  }

  toggle(source) {
    const on = !this.shown(source);
    this.chips.get(source).setAttribute("aria-pressed", String(on));
    this.stage.classList.toggle(`off-${source}`, !on);
    this.changed();
  }

  // tokens: Map of source to tokens in the answer. figures: of the whole answer, once known.
  show(tokens, figures = null) {
    for (const [source, chip] of this.chips) {
      const [, , total, share] = chip.children;
      const rate = figures?.acceptance[source];
      total.textContent = tokens ? count(tokens.get(source) ?? 0) : "";
      const echo = rate > 0 && tokens && !tokens.get(source); // others had the same guesses before it
      share.textContent = rate === undefined ? "" : echo ? "agreed with others" : `${percent(rate)} accepted`;
      if (rate !== undefined) share.title = `of the ${count(figures.offered[source])} guesses that the model got to judge`;
      chip.hidden = !tokens?.get(source) && !figures?.offered[source];
    }
  }
}
