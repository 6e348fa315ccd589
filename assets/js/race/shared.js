/** @import { RaceView } from "./race-view.js" */

/**
 * What the Learn tab needs to know of it: how it runs here, and [tokens, seconds of a forward pass over them].
 * @typedef {{ badges: string[], cost: [number, number][] }} Measured
 */

/**
 * The Race tab's view, for tabs that speak of the race it shows, and the model, once another one than at the start was
 * chosen. A page loads a module once, so all have this object.
 * @type {{ race: RaceView | null, model: Measured | null }}
 */
export const shared = { race: null, model: null };
