// Numbers as the page writes them, and small DOM helpers.
const whole = new Intl.NumberFormat("en");

export const count = (n) => whole.format(Math.round(n));
export const seconds = (s) => (s < 1 ? s.toFixed(2) : s.toFixed(1)) + " s";
export const milliseconds = (s) => (s < 1 ? `${Math.round(1000 * s)}\u00a0ms` : seconds(s));
export const speed = (x) => (x < 9.95 ? x.toFixed(1) : count(x)); // tokens a second
export const ratio = (x) => x.toFixed(x < 9.995 ? 2 : 1);
export const percent = (x) => Math.round(100 * x) + " %";
export const plural = (n, one, many = one + "s") => `${count(n)} ${n === 1 ? one : many}`;
export const sentence = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);
export const list = (words) => (words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`);

export function make(tag, className = "", text = "") {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text) node.textContent = text;
  return node;
}

const SVG = "http://www.w3.org/2000/svg";

export function shape(tag, attributes = {}, text = "") {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text) node.textContent = text;
  return node;
}

// Spaces and line ends made visible, for one token out of its sentence.
export const visible = (text) => text.replaceAll(" ", "·").replaceAll("\n", "↵").replaceAll("\t", "⇥") || "∅";

const LONG = 14;
export const brief = (text) => (visible(text).length > LONG ? visible(text).slice(0, LONG - 1) + "…" : visible(text));

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
