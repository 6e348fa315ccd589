// What every plotly figure of the page shares: the bundle, loaded once from this machine, its inks and its layout.
export const CONFIG = { displayModeBar: false, scrollZoom: false, doubleClick: false };

export function loadPlotly() {
  if (window.Plotly) return Promise.resolve(window.Plotly);
  return new Promise((resolve, reject) => {
    const known = document.querySelector("script[data-plotly]");
    const script = known ?? document.createElement("script");
    script.addEventListener("load", () => resolve(window.Plotly));
    script.addEventListener("error", () => {
      script.remove();
      reject(new Error("the charts could not be loaded"));
    });
    if (known) return;
    script.src = new URL("plotly/plotly.min.js", import.meta.url).href;
    script.async = true;
    script.dataset.plotly = "";
    document.head.append(script);
  });
}

export function inkOf(node) {
  const style = getComputedStyle(node);
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  const series = ["muted", "ink", "series-1", "series-2", "series-3", "series-4", "series-5", "series-6"].map(read);
  return { ink: read("ink"), muted: read("muted"), grid: read("line"), good: read("good"), paper: read("paper"), veil: read("veil"), series };
}

// drawn: how often this figure was drawn, so that plotly looks again at arrays that grew in place.
export function layoutOf(box, ink, drawn, { xaxis, yaxis, ...extra }) {
  const axis = { gridcolor: ink.grid, zeroline: false, fixedrange: true, tickfont: { size: 11.5 }, ticks: "", ticklabelstandoff: 5 };
  return {
    margin: { l: 38, r: 14, t: 18, b: 26 },
    height: box.clientHeight,
    width: box.clientWidth,
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
