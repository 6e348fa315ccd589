/** Bars with a name on the left and a figure on the right. */

import { make } from "../common/dom.js";

/** @param {{ name: string, length: number, label: string }[]} rows */
export function bars(rows) {
  const figure = make("dl", "costs");
  const longest = Math.max(...rows.map(({ length }) => length), Number.MIN_VALUE);
  for (const { name, length, label } of rows) {
    const bar = make("dd");
    const fill = make("i");
    fill.style.setProperty("--share", String(length / longest));
    bar.append(fill, make("span", "", label));
    figure.append(make("dt", "", name), bar);
  }
  return figure;
}
