/** What was asked of a run that went on or waited when the page went away; the browser keeps it until the next load. */

/** @import { Link, Begin } from "../stream/messages.js" */

const KEY = "spectra-cut-off";
/** The word that is left of a run that waited for its turn. */
export const WAITED = "waited";
const LONGEST = 50_000; // characters; visual/guard.py takes 60,000 with the path

/**
 * @param {Pick<Storage, "setItem">} store
 * @param {{ state: string, begin: Pick<Begin, "link"> } | null | undefined} turn
 * @param {string} [tab] in which it ran
 */
export function keepCutOff(store, turn, tab = "race") {
  if (turn?.state === "running") store.setItem(`${KEY}-${tab}`, `?${queryOf(turn.begin.link)}`);
}

/**
 * Leaves a word for the next load of what has no link.
 * @param {Pick<Storage, "setItem">} store
 * @param {string} tab
 * @param {string} word
 */
export const leaveWord = (store, tab, word) => store.setItem(`${KEY}-${tab}`, word);

/**
 * A link that asks for it again, or the word that was left; given once.
 * @param {Pick<Storage, "getItem" | "removeItem">} store
 * @param {string} [tab]
 */
export function takeCutOff(store, tab = "race") {
  const link = store.getItem(`${KEY}-${tab}`);
  store.removeItem(`${KEY}-${tab}`);
  return link;
}

/**
 * What is done with the storage of this browser tab; null where the browser lends none.
 * @template T
 * @param {(store: Storage) => T} work
 */
export function stored(work) {
  try {
    return work(sessionStorage);
  } catch {
    return null;
  }
}

/**
 * A link's fields as a query, without the prompt where the server would refuse so long an address.
 * @param {Link} link
 */
export function queryOf(link) {
  const query = encoded(link);
  const { prompt: _, ...others } = link;
  return query.length > LONGEST ? encoded(others) : query;
}

/** @param {Record<string, unknown>} fields */
const encoded = (fields) =>
  new URLSearchParams(Object.entries(fields).map(([name, value]) => [name, String(value)])).toString();
