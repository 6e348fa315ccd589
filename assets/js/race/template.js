/** The fixed markup of a race view. No text of a model, a prompt or an engine ever passes through here. */

import { WINDOW } from "../charts/acceptance-figure.js";

export const KEY = `Tinted words were guessed ahead and confirmed by the model; the colour says who guessed.
A line above: several sources had it. Untinted words the model wrote itself.`;

const HERO = `
<p class="recorded" data-id="recorded" hidden><b>A recording</b> <span data-id="recorded-note"></span>
  <em data-id="recorded-hint">Press Race to run one live on this machine.</em></p>
<section class="hero" aria-label="Result">
  <p class="big"><span data-id="speedup">How fast?</span><small data-id="verdict">Press Race to measure it</small></p>
  <div class="tracks">
    <span class="who">Plain</span><div class="bar plain"><i data-id="bar-plain"></i></div>
    <span class="rate" data-id="rate-plain"></span>
    <b class="who" data-id="who">SPECTRA</b><div class="bar"><i data-id="bar-method"></i></div>
    <span class="rate" data-id="rate-method"></span>
    <p class="below"><span><span class="badge" data-id="badge"></span><span data-id="more"></span></span>
      <button type="button" class="quiet" data-id="alone" hidden>Measure alone</button>
      <button type="button" class="quiet" data-id="play" hidden>Play both</button></p>
    <p class="why" data-id="why"></p>
  </div>
</section>`;

const LANES = `
<p class="key">${KEY}</p>
<div class="legend" data-id="legend" role="group" aria-label="Colours by source"></div>
<section class="lanes">
  <article class="card lane"><h2>Plain decoding <span data-id="note-plain"></span></h2>
    <div class="text" data-id="text-plain" tabindex="0" role="region" aria-label="Answer of plain decoding"><p
      class="hint">The model writes one token, reads it back, and writes the next: one forward pass for every
      token.</p></div></article>
  <article class="card lane method"><h2><span class="title" data-id="title">SPECTRA</span>
    <small>a hairline before each pass; click one</small> <span data-id="note-method"></span></h2>
    <div class="text" data-id="text-method" tabindex="0" role="region" aria-label="Answer of SPECTRA"><p
      class="hint"><span data-id="idea"></span> One forward pass checks every guess, keeps those the model would have
      written itself, and adds one token of its own. A hairline marks each pass, the tint says who guessed.</p></div>
  </article>
</section>`;

const CHARTS = `
<section class="figures three" data-id="figures" hidden>
  <article class="card figure">
    <h2>Tokens over <span class="switch" role="group" aria-label="Horizontal axis">
      <button type="button" aria-pressed="true" data-id="axis-time">time</button><button
        type="button" aria-pressed="false" data-id="axis-passes">forward passes</button></span></h2>
    <p>Both answers from the same start.</p><div class="plot" data-id="plot-growth"></div></article>
  <article class="card figure"><h2>Tokens gained per forward pass</h2>
    <p>One bar a pass, stacked by source; the line is the mean of the last 12 passes.</p>
    <div class="plot" data-id="plot-gain"></div></article>
  <article class="card figure"><h2>Accepted of <span data-id="accepted-of"></span></h2>
    <p>By source, over the last ${WINDOW} passes.</p>
    <div class="plot" data-id="plot-acceptance"></div></article>
</section>`;

const STEP_PANEL = `
<section class="card inside" data-id="inside" hidden>
  <h2>Inside step <span data-id="step-at"></span></h2><p data-id="step-line"></p>
  <input type="range" min="1" value="1" data-id="step-slider" aria-label="Step">
  <p class="context" data-id="context"></p>
  <div class="tree" data-id="tree" tabindex="0" role="region" aria-label="Token tree of this step"></div>
  <p class="reading">Each box is a token (· a space, ↵ a line end, ‹part› a part of a character) with the chance it was
    given, where one was. Bold lines: accepted. Struck through: not accepted. No number, no fill: the model's own
    pick.</p>
  <p class="gist" data-id="gist"></p><ol data-id="reasons"></ol>
  <details class="fold" data-id="dictionaries" hidden><summary>What the dictionaries held and learned</summary>
    <div class="held" data-id="held"></div></details>
  <details class="fold" data-id="mask"><summary>What each token may read</summary>
    <p>A filled square: the token of this row reads the token of this column. Each reads the whole text before and its
      own branch, never the branch beside it. So one forward pass scores every branch as if it stood alone.</p>
    <div class="sees" data-id="sees" tabindex="0" role="region" aria-label="Attention mask of this step"></div>
  </details>
</section>`;

const END = `
<footer class="end"><span data-id="fine"></span><span class="actions">
  <button type="button" class="quiet" data-id="again" hidden>Again, same seed</button>
  <button type="button" class="quiet" data-id="link" hidden>Copy link</button>
  <button type="button" class="quiet" data-id="download" hidden>Download trace</button>
  <button type="button" class="quiet" data-id="clear" hidden>Clear</button></span></footer>
<p class="unseen" role="status" data-id="status"></p>
<div class="tip" data-id="tip" hidden></div>`;

export const TEMPLATE = HERO + LANES + CHARTS + STEP_PANEL + END;
