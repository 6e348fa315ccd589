/**
 * Runs before gradio's modules. Its status trackers keep the `requestAnimationFrame` that they find when they are
 * loaded and count seconds with it, 60 times a second as long as something is pending; the tracker of the start never
 * ends, though it is gone from the page. What they keep comes once a second from the moment that the page is there;
 * everyone else finds the browser's own again.
 */

(() => {
  const PAUSE = 1000; // ms
  const own = window.requestAnimationFrame;
  let there = false;
  /** @param {FrameRequestCallback} tick */
  window.requestAnimationFrame = (tick) =>
    there ? Number(setTimeout(() => tick(performance.now()), PAUSE)) : own.call(window, tick);
  window.addEventListener(
    "spectra-mounted",
    () => {
      there = true;
      window.requestAnimationFrame = own;
    },
    { once: true },
  );
})();
