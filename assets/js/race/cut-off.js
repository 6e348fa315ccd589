/** What was asked of a race that still ran when the page went away; the browser keeps it until the next load. */

/** @import { Link, Begin } from "../stream/messages.js" */

const KEY = "spectra-cut-off";

/**
 * @param {Pick<Storage, "setItem">} store
 * @param {{ state: string, begin: Pick<Begin, "link"> } | null | undefined} turn
 */
export function keepCutOff(store, turn) {
  if (turn?.state === "running") store.setItem(KEY, `?${queryOf(turn.begin.link)}`);
}

/**
 * A link that asks for it again; given once.
 * @param {Pick<Storage, "getItem" | "removeItem">} store
 */
export function takeCutOff(store) {
  const link = store.getItem(KEY);
  store.removeItem(KEY);
  return link;
}

/** @param {Link} link */
export const queryOf = (link) =>
  new URLSearchParams(Object.entries(link).map(([name, value]) => [name, String(value)])).toString();
