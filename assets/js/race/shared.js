/** @import { RaceView } from "./race-view.js" */

/**
 * The Race tab's view, for tabs that speak of the race it shows. A page loads a module once, so all have this object.
 * @type {{ race: RaceView | null }}
 */
export const shared = { race: null };
