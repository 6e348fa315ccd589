// One-line messages under the input they belong to; they go when that input changes.
import { make, sentence } from "./format.js";

export class Fields {
  // root: the card with the inputs. scope: what their ids start with after "field-".
  constructor(root, scope = "") {
    this.root = root;
    this.scope = scope;
  }

  box(field) {
    return document.getElementById(`field-${this.scope}${field}`);
  }

  refuse(field, text) {
    this.clear();
    const place = this.box(field);
    const note = make("p", "field-error", sentence(place || !field || field === "go" ? text : `${field}: ${text}`));
    note.id = `${this.scope}field-error`;
    note.setAttribute("role", "alert");
    place?.closest("details, .more-settings")?.querySelector("button.label-wrap:not(.open)")?.click();
    (place ?? this.root).append(note);
    const input = place?.querySelector("input, textarea");
    if (!input) return;
    input.setAttribute("aria-invalid", "true");
    input.setAttribute("aria-describedby", note.id);
    input.addEventListener("input", () => this.clear(), { once: true });
    input.focus();
  }

  // Say of each example prompt why it is worth trying.
  tell(reasons) {
    this.root.querySelectorAll("button.example").forEach((button, i) => (button.title = reasons[i] ?? ""));
  }

  clear() {
    for (const note of this.root.querySelectorAll(".field-error")) note.remove();
    for (const input of this.root.querySelectorAll("[aria-invalid]")) {
      input.removeAttribute("aria-invalid");
      input.removeAttribute("aria-describedby");
    }
  }
}
