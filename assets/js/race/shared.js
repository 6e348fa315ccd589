/** @import { RaceView } from "./race-view.js" */

/**
 * What the Learn tab needs to know of a model: its name, how it runs here, and [tokens, seconds of a forward pass over
 * them].
 * @typedef {{ name: string, badges: string[], cost: [number, number][] }} Measured
 */

/**
 * The Race tab's view, for tabs that speak of the race it shows, and the model, once another one than at the start was
 * chosen. raced: the model of the last race that began on this page. A page loads a module once, so all have this
 * object.
 * @type {{ race: RaceView | null, model: Measured | null, raced: string | null }}
 */
export const shared = { race: null, model: null, raced: null };
