// One-line messages under the input they belong to; they go when that input changes.
import { make } from "./format.js";

const box = (field) => document.getElementById(`field-${field}`);

export function refuse(field, text) {
  clear();
  const place = box(field);
  const note = make("p", "field-error", place ? text : `${field ? field + ": " : ""}${text}`);
  note.id = "field-error";
  note.setAttribute("role", "alert");
  (place ?? document.getElementById("ask")).append(note);
  const input = place?.querySelector("input, textarea");
  if (!input) return;
  input.setAttribute("aria-invalid", "true");
  input.setAttribute("aria-describedby", note.id);
  input.addEventListener("input", clear, { once: true });
  input.focus();
}

export function clear() {
  document.getElementById("field-error")?.remove();
  for (const input of document.querySelectorAll("#ask [aria-invalid]")) {
    input.removeAttribute("aria-invalid");
    input.removeAttribute("aria-describedby");
  }
}
