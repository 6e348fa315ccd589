/** What gradio's folds do not say: whether they are open. */

/** @param {HTMLElement} root */
export function tellFolds(root) {
  for (const button of root.querySelectorAll("button.label-wrap")) {
    const tell = () => button.setAttribute("aria-expanded", String(button.classList.contains("open")));
    new MutationObserver(tell).observe(button, { attributeFilter: ["class"] });
    tell();
  }
}
