/** A small switch between a few readings of the same thing: real buttons, one of them pressed. */

import { button, make } from "./dom.js";

/** @template {string} Name */
export class Choice {
  /**
   * @param {string} label
   * @param {Record<Name, string>} choices the first one is pressed
   * @param {(name: Name) => void} changed
   */
  constructor(label, choices, changed) {
    const names = /** @type {Name[]} */ (Object.keys(choices));
    this.value = names[0];
    this.box = make("span", "switch");
    this.box.setAttribute("role", "group");
    this.box.setAttribute("aria-label", label);
    this.buttons = names.map((name) => {
      const node = button("", choices[name], () => {
        this.press(name);
        changed(name);
      });
      node.dataset.choice = name;
      this.box.append(node);
      return node;
    });
    this.press(this.value);
  }

  /** @param {Name} name */
  press(name) {
    this.value = name;
    for (const node of this.buttons) node.setAttribute("aria-pressed", String(node.dataset.choice === name));
  }
}
