/** One-line messages under the input they belong to; they go when that input changes. */

import { make } from "./dom.js";
import { tellFolds } from "./folds.js";
import { sentence } from "./format.js";

/** @import { Problem } from "../stream/messages.js" */

export class Fields {
  /**
   * @param {HTMLElement} root the card with the inputs
   * @param {string} [scope] what their ids start with after "field-"
   */
  constructor(root, scope = "") {
    this.root = root;
    this.scope = scope;
    tellFolds(root);
    // gradio's list opens again a moment after any key in its field, one that leaves the field too
    root.addEventListener("keydown", (event) => {
      if (event.key === "Tab") event.stopPropagation();
    });
  }

  /** @param {string} field */
  box(field) {
    return document.getElementById(`field-${this.scope}${field}`);
  }

  /**
   * Enter in a field of several lines sends it; while composing it takes what was composed.
   * @param {string} field
   * @param {() => void} act
   */
  onEnter(field, act) {
    this.box(field)?.addEventListener("keydown", ({ key, shiftKey, isComposing }) => {
      if (key === "Enter" && !shiftKey && !isComposing) act();
    });
  }

  /**
   * @param {Problem} problem
   * @returns {HTMLElement} the message
   */
  refuse({ field, text }) {
    this.clear();
    const place = this.box(field);
    const note = make("p", "field-error", sentence(place || !field || field === "go" ? text : `${field}: ${text}`));
    note.id = `${this.scope}field-error`;
    note.setAttribute("role", "alert");
    unfold(place);
    (place ?? this.root).append(note);
    const input = place?.querySelector("input, textarea");
    if (!(input instanceof HTMLElement)) return note;
    input.setAttribute("aria-invalid", "true");
    input.setAttribute("aria-describedby", note.id);
    input.addEventListener("input", () => this.clear(), { once: true });
    input.focus();
    return note;
  }

  /**
   * Why each example prompt is worth trying.
   * @param {string[]} reasons
   */
  explain(reasons) {
    for (const [i, button] of [...this.root.querySelectorAll("button.example")].entries()) {
      if (button instanceof HTMLElement) button.title = reasons[i] ?? "";
    }
  }

  clear() {
    for (const note of this.root.querySelectorAll(".field-error")) note.remove();
    for (const input of this.root.querySelectorAll("[aria-invalid]")) {
      input.removeAttribute("aria-invalid");
      input.removeAttribute("aria-describedby");
    }
  }
}

/**
 * Open the fold that a field is in.
 * @param {HTMLElement | null} place
 */
function unfold(place) {
  const closed = place?.closest("details, .more-settings")?.querySelector("button.label-wrap:not(.open)");
  if (closed instanceof HTMLElement) closed.click();
}
