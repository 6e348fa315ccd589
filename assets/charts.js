// The two live charts: plotly figures drawn from the lanes' own arrays. plotly itself is loaded when the page is idle.
import { count, make, seconds } from "./format.js";
import { CONFIG, inkOf, layoutOf, loadPlotly } from "./plots.js";

const MEAN_OF = 12;
const HATCHED = 120; // bars of more steps are too narrow to show it

export class Charts {
  // looks: rows of the palette. onStep(step or null, chosen): the pointer is on a bar, or a bar was clicked.
  constructor(growth, gain, looks, onStep) {
    this.growth = growth;
    this.gain = gain;
    this.looks = looks;
    this.onStep = onStep;
    this.axis = "time";
    this.drawn = 0; // the lanes' arrays grow in place, so plotly is told that they did
    this.band = make("div", "band");
    this.band.hidden = true;
  }

  load() {
    return (this.loading ??= loadPlotly());
  }

  async draw(state) {
    this.plotly ??= await this.load();
    Object.assign(this, inkOf(this.growth));
    this.drawn += 1;
    await this.drawGrowth(state);
    await new Promise((resolve) => setTimeout(resolve)); // two short tasks rather than a long one
    if (this.gain.clientWidth) await this.drawGain(state);
    if (this.gain.on && this.band.parentNode !== this.gain) this.listen();
  }

  layout(xaxis, yaxis, extra = {}) {
    return layoutOf(this.gain, this, this.drawn, { xaxis, yaxis, ...extra });
  }

  drawGrowth({ plain, method, cap, over, name }) {
    const passes = this.axis === "passes";
    const xs = (lane) => (passes ? lane.totals.map((_, i) => i) : lane.ends);
    const ends = [plain, method].map((lane) => xs(lane).at(-1));
    const most = Math.max(plain.tokens, method.tokens);
    const top = over ? most : Math.max(cap, most);
    const guess = passes ? cap : (plain.seconds * cap) / Math.max(plain.tokens, 1);
    const far = over || method.tokens ? Math.max(...ends) : guess;
    const line = (lane, colour, width, dash) => ({
      x: xs(lane), y: lane.totals, mode: "lines", line: { color: colour, width, dash }, hoverinfo: "skip",
    });
    const traces = [line(plain, this.muted, 2, "5px,4px"), line(method, this.ink, 2.4, "solid")];
    const notes = [];
    const write = (x, y, text, colour, extra) =>
      notes.push({ x, y, text, showarrow: false, font: { color: colour, size: 12 }, ...extra });
    const halfway = (lane) => Math.floor(lane.totals.length * 0.55);
    if (plain.tokens > 8) {
      const i = halfway(plain);
      write(xs(plain)[i], plain.totals[i], "Plain", this.muted, { xanchor: "left", yanchor: "top", xshift: 8 });
    }
    if (method.tokens > 8) {
      const i = halfway(method);
      write(xs(method)[i], method.totals[i], `<b>${name}</b>`, this.ink, { xanchor: "right", yanchor: "bottom", xshift: -8 });
    }
    if (over && plain.tokens && method.tokens) {
      const level = Math.min(plain.tokens, method.tokens);
      const from = passes ? method.totals.findIndex((n) => n >= level) : method.secondsTo(level);
      const to = passes ? level : plain.secondsTo(level);
      if (to > from) {
        traces.push({ x: [from, to], y: [level, level], mode: "lines", line: { color: this.good, width: 3 }, hoverinfo: "skip" });
        const saved = passes ? `${count(to - from)} passes saved` : `${seconds(to - from)} saved`;
        write(to, level, `<b>${saved}</b>`, this.good, { xanchor: "right", yanchor: "bottom", yshift: 2 });
      }
    }
    const layout = this.layout(
      { range: [0, (far || 1) * 1.02], ticksuffix: passes ? "" : " s", nticks: 7 },
      { range: [0, top * 1.1], nticks: 6 },
      { annotations: notes, hovermode: false },
    );
    return this.plotly.react(this.growth, traces, layout, CONFIG);
  }

  drawGain({ method, over, shown }) {
    const steps = method.steps;
    const xs = steps.map((_, i) => i + 1);
    const style = (source) => {
      const probe = make("i", source);
      this.gain.append(probe);
      const colour = getComputedStyle(probe).getPropertyValue("--c").trim();
      probe.remove();
      return colour;
    };
    const given = new Set(steps.flatMap((step) => step.sources));
    const traces = this.looks.filter(({ source }) => given.has(source)).map(({ source, hatch }) => ({
      type: "bar",
      x: xs,
      y: steps.map((step) => step.sources.filter((s) => s === source).length),
      marker: {
        color: shown(source) ? style(source) : this.grid,
        line: { width: 0 },
        pattern: { shape: steps.length <= HATCHED ? hatch : "", fillmode: "overlay", fgcolor: this.paper, size: 5, solidity: 0.25 },
      },
      hoverinfo: "none",
    }));
    traces.push({ x: xs, y: rolling(steps.map((step) => step.sources.length)), mode: "lines", hoverinfo: "skip",
      line: { color: this.ink, width: 1.8 } });
    const top = Math.max(4, ...steps.map((step) => step.sources.length));
    const layout = this.layout(
      { range: [0.4, Math.max(over ? 8 : 24, steps.length) + 0.6], nticks: 7 },
      { range: [0, top + 0.4], dtick: top > 12 ? 4 : top > 6 ? 2 : 1 },
      { barmode: "stack", bargap: steps.length > 200 ? 0 : 0.22, hovermode: "x" },
    );
    return this.plotly.react(this.gain, traces, layout, CONFIG);
  }

  listen() {
    this.gain.append(this.band);
    this.gain.on("plotly_hover", ({ points }) => this.onStep(points[0].pointNumber, false));
    this.gain.on("plotly_unhover", () => this.onStep(null, false));
    this.gain.on("plotly_click", ({ points }) => this.onStep(points[0].pointNumber, true));
  }

  // Frame the bar of one step; null takes the frame away.
  light(step) {
    const plot = this.gain._fullLayout;
    this.band.hidden = step === null || !plot;
    if (this.band.hidden) return;
    const { xaxis, yaxis } = plot;
    const left = xaxis.l2p(step + 0.5);
    const width = Math.max(4, xaxis.l2p(step + 1.5) - left);
    this.band.style.transform = `translate(${xaxis._offset + left}px, ${yaxis._offset}px)`;
    this.band.style.width = `${width}px`;
    this.band.style.height = `${yaxis._length}px`;
  }
}

function rolling(values) {
  let sum = 0;
  return values.map((value, i) => {
    sum += value - (i >= MEAN_OF ? values[i - MEAN_OF] : 0);
    return sum / Math.min(i + 1, MEAN_OF);
  });
}
