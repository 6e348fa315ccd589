/** Where the keyboard is when the element that has it goes away: it moves to the next one, not to the page's top. */

/**
 * Buttons of which either those that start or the one that stops can be pressed: who had the focus hands it on.
 * @param {string} starts a selector; some may come up later
 * @param {HTMLElement} stop
 */
export function handOver(starts, stop) {
  /** @type {HTMLElement | null} */
  let held = null; // has or had the focus, and nothing else got it since
  /** @type {Element | null} */
  let latest = null; // gets the focus back
  const watch = new MutationObserver(() => {
    const start = latest?.isConnected ? latest : document.querySelector(starts);
    const next = held === stop ? start : stop;
    const lost = document.activeElement === held || document.activeElement === document.body;
    if (!(next instanceof HTMLElement && held?.matches(":disabled") && lost)) return;
    if (next.matches(":enabled")) next.focus({ preventScroll: true });
  });
  watch.observe(stop, { attributeFilter: ["disabled"] });
  document.addEventListener("focusin", ({ target }) => {
    const own = target instanceof HTMLElement && (target === stop || target.matches(starts));
    held = own ? target : null;
    if (!own || held === stop) return;
    latest = held;
    watch.observe(target, { attributeFilter: ["disabled"] });
  });
  document.addEventListener("focusout", ({ target }) => {
    // the visitor left it; not the window, and it was not switched off
    if (target === held && held?.matches(":enabled") && document.activeElement !== held) held = null;
  });
}

/**
 * Do something that may hide or remove what has the focus inside a box; where it does, `next` gets it.
 * @param {HTMLElement} box
 * @param {() => void} work
 * @param {() => HTMLElement | null} next
 */
export function keepFocus(box, work, next) {
  const held = document.activeElement;
  const inside = held instanceof HTMLElement && box.contains(held);
  work();
  if (inside && !held.getClientRects().length) next()?.focus({ preventScroll: true });
}
