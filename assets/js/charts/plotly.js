/** What every plotly figure of the page shares: the bundle, loaded once from this machine, its inks and its layout. */

/** @typedef {Record<string, unknown>} Trace */

/** @typedef {{ type?: string, range?: [number, number] } & Record<string, unknown>} Axis */

/**
 * @typedef {object} Frame
 * @property {{ l: number, r: number, t: number, b: number }} margin
 * @property {number} width
 * @property {number} height
 * @property {Axis} xaxis
 * @property {Axis} yaxis
 *
 * @typedef {Frame & Record<string, unknown>} Layout
 */

/**
 * A figure as plotly reads it.
 * @typedef {{ traces: Trace[], layout: Layout }} Figure
 */

/**
 * The part of plotly that the page uses, all of it documented.
 * @typedef {object} Plotly
 * @property {(box: HTMLElement, traces: Trace[], layout: Layout, config: object) => Promise<unknown>} react
 * @property {(box: HTMLElement, options: object) => Promise<string>} toImage
 */

/**
 * An element that plotly has drawn in.
 * @typedef {HTMLElement & { on?: (event: string, handler: (data: PlotEvent) => void) => void }} PlotBox
 */

/** @typedef {{ points: { pointNumber: number }[] }} PlotEvent */

/**
 * Colours of the page as it is now, light or dark. series: of the lines of a chart.
 * @typedef {object} Ink
 * @property {string} ink
 * @property {string} muted
 * @property {string} grid
 * @property {string} good
 * @property {string} paper
 * @property {string[]} series
 */

export const CONFIG = { displayModeBar: false, scrollZoom: false, doubleClick: false };

const AHEAD = 8000; // ms after the page: its start is over
const SLOW = 500; // ms, after which a wait for the bundle is said
const FEW = 5; // tokens or passes on an axis that is ticked at each of them

/**
 * Ticks of an axis that counts: there is no half of a token.
 * @param {number} highest
 * @param {number} nticks
 */
export const ticksTo = (highest, nticks) => (highest > FEW ? { nticks } : { dtick: 1 });

/** The margins of a figure with a named axis under it. */
export const UNDER = { l: 38, r: 14, t: 18, b: 42 };

/**
 * What a horizontal axis counts.
 * @param {string} text
 */
export const named = (text) => ({ title: { text, font: { size: 12 }, standoff: 4 } });

const SERIES = ["muted", "ink", "series-1", "series-2", "series-3", "series-4", "series-5", "series-6"];

/** @returns {Plotly | undefined} */
const loaded = () => /** @type {Window & { Plotly?: Plotly }} */ (window).Plotly;

/** @returns {Promise<Plotly>} */
export function loadPlotly() {
  const bundle = loaded();
  if (bundle) return Promise.resolve(bundle);
  return new Promise((resolve, reject) => {
    const known = document.querySelector("script[data-plotly]");
    const script = known instanceof HTMLScriptElement ? known : document.createElement("script");
    const fail = () => {
      script.remove();
      reject(new Error("The charts could not be loaded. They are tried again when you come back to them."));
    };
    script.addEventListener("load", () => {
      const plotly = loaded();
      if (plotly) resolve(plotly);
      else fail();
    });
    script.addEventListener("error", fail);
    if (known) return;
    script.src = new URL("../../plotly/plotly.min.js", import.meta.url).href;
    script.async = true;
    script.dataset.plotly = "";
    document.head.append(script);
  });
}

/** Load the bundle some seconds after the page, while no lane is measured: one that is would pay for the first look. */
export function loadAhead() {
  setTimeout(() => {
    if (document.querySelector(".stage[data-state=running]")) loadAhead();
    else loadPlotly().catch(() => {});
  }, AHEAD);
}

/**
 * Draw; what went wrong stands in a box until a drawing succeeds, and on a slow line what is waited for.
 * @param {HTMLElement} box
 * @param {() => Promise<unknown>} draw
 * @returns {Promise<boolean>} whether it did
 */
export async function drawnIn(box, draw) {
  const slow = setTimeout(() => {
    if (!loaded()) box.dataset.waits = "The charts are being loaded.";
  }, SLOW);
  try {
    await draw();
    delete box.dataset.problem;
    return true;
  } catch (error) {
    box.dataset.problem = error instanceof Error ? error.message : String(error);
    return false;
  } finally {
    clearTimeout(slow);
    delete box.dataset.waits;
  }
}

/**
 * @param {HTMLElement} node
 * @returns {Ink}
 */
export function inkOf(node) {
  const style = getComputedStyle(node);
  /** @param {string} name */
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    ink: read("ink"),
    muted: read("muted"),
    grid: read("line"),
    good: read("good"),
    paper: read("paper"),
    series: SERIES.map(read),
  };
}

/**
 * @typedef {object} Canvas
 * @property {number} width
 * @property {number} height
 * @property {Ink} ink
 * @property {number} drawn how often this figure was drawn, so that plotly looks at its arrays again
 */

/**
 * @param {Canvas} canvas
 * @param {{ xaxis: Axis, yaxis: Axis } & Record<string, unknown>} parts
 * @returns {Layout}
 */
export function layoutOf({ width, height, ink, drawn }, { xaxis, yaxis, ...extra }) {
  const axis = {
    gridcolor: ink.grid,
    zeroline: false,
    fixedrange: true,
    tickfont: { size: 11.5 },
    ticks: "",
    ticklabelstandoff: 5,
  };
  return {
    margin: { l: 38, r: 14, t: 18, b: 26 },
    width,
    height,
    paper_bgcolor: "transparent",
    plot_bgcolor: "transparent",
    font: { family: "Inter, system-ui, sans-serif", color: ink.muted, size: 12 },
    showlegend: false,
    dragmode: false,
    datarevision: drawn,
    xaxis: { ...axis, showgrid: false, ...xaxis },
    yaxis: { ...axis, ...yaxis },
    ...extra,
  };
}
