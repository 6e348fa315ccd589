// The two charts of Compare: bars of tokens a second, and tokens over time, one line a method.
import { CONFIG, layoutOf, loadPlotly, inkOf } from "./plots.js";
import { speed } from "./format.js";

const DASHES = ["solid", "8px,3px", "2px,3px", "10px,3px,2px,3px", "14px,4px"];

export class CompareCharts {
  constructor(bars, lines) {
    Object.assign(this, { bars, lines, drawn: 0 });
  }

  async draw(rows, lanes) {
    this.plotly ??= await loadPlotly();
    this.drawn += 1;
    const ink = inkOf(this.bars);
    const height = Math.max(236, 60 + 26 * rows.length);
    this.narrow = this.bars.clientWidth < 420; // then the names stand below the lines, not on them
    this.bars.style.height = `${height}px`;
    this.lines.style.height = `${height + (this.narrow ? 20 * rows.length : 0)}px`;
    await this.drawBars(rows, ink);
    await new Promise((resolve) => setTimeout(resolve)); // two short tasks rather than a long one
    await this.drawLines(rows, lanes, ink);
  }

  drawBars(rows, ink) {
    const shown = rows.filter((row) => row.passes);
    const plain = shown.find((row) => row.method === "autoregressive")?.rate ?? 0;
    const trace = {
      type: "bar", orientation: "h", x: shown.map((row) => row.rate), y: shown.map((row) => row.name),
      text: shown.map((row) => speed(row.rate)), textposition: "outside", cliponaxis: false, hoverinfo: "none",
      textfont: { color: ink.ink, size: 12 },
      marker: { color: shown.map((row) => (row.method === "autoregressive" ? ink.muted : ink.ink)) },
    };
    const top = Math.max(1, ...shown.map((row) => row.rate));
    const layout = layoutOf(this.bars, ink, this.drawn, {
      xaxis: { range: [0, top * 1.12], nticks: 6, showgrid: true },
      yaxis: { autorange: "reversed", showgrid: false, tickfont: { size: this.narrow ? 10.5 : 12, color: ink.ink }, automargin: true },
      bargap: 0.35,
      shapes: plain ? [{ type: "line", x0: plain, x1: plain, y0: 0, y1: 1, yref: "paper", line: { color: ink.muted, width: 1, dash: "3px,3px" } }] : [],
    });
    return this.plotly.react(this.bars, [trace], layout, CONFIG);
  }

  drawLines(rows, lanes, ink) {
    const shown = rows.filter((row) => row.passes);
    const traces = shown.map((row, i) => ({
      x: lanes[row.method].ends, y: lanes[row.method].totals, mode: "lines", hoverinfo: "name", name: row.name,
      line: { color: ink.series[i % ink.series.length], dash: DASHES[i % DASHES.length], width: 2 },
    }));
    const layout = layoutOf(this.lines, ink, this.drawn, {
      xaxis: { ticksuffix: " s", nticks: 6, rangemode: "tozero", showgrid: false },
      yaxis: { nticks: 6, rangemode: "tozero" },
      showlegend: true,
      legend: {
        ...(this.narrow ? { x: 0, xanchor: "left", y: -0.12, yanchor: "top" } : { x: 1, xanchor: "right", y: 0.02, yanchor: "bottom" }),
        bgcolor: ink.veil, font: { size: 11.5, color: ink.ink },
      },
    });
    return this.plotly.react(this.lines, traces, layout, CONFIG);
  }

  // Both charts under each other, as one PNG.
  async picture() {
    const parts = await Promise.all([this.bars, this.lines].map(async (box) => {
      const image = new Image();
      image.src = await this.plotly.toImage(box, { format: "png", scale: 2, width: box.clientWidth, height: box.clientHeight });
      await image.decode();
      return image;
    }));
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(...parts.map((part) => part.width));
    canvas.height = parts.reduce((sum, part) => sum + part.height, 0);
    const pen = canvas.getContext("2d");
    pen.fillStyle = inkOf(this.bars).paper;
    pen.fillRect(0, 0, canvas.width, canvas.height);
    parts.reduce((top, part) => (pen.drawImage(part, 0, top), top + part.height), 0);
    return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  }
}
