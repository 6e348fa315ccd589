/** A second click in one task is none: gradio learns of the first only after it, and would start a run for each. */

/** @param {HTMLElement} button */
export function oneClick(button) {
  let clicked = false;
  button.addEventListener(
    "click",
    (event) => {
      if (clicked) event.stopImmediatePropagation();
      clicked = true;
      setTimeout(() => {
        clicked = false;
      });
    },
    { capture: true },
  );
}
