/** `node fold.js < messages.json`: what the page holds after an array of messages, as JSON. */

import { text } from "node:stream/consumers";
import { textBefore } from "../../../assets/js/stream/lane.js";
import { EMPTY, reduce } from "../../../assets/js/stream/reducer.js";
import { sourcesIn } from "./runs.js";

/** @import { RunMessage } from "../../../assets/js/stream/messages.js" */
/** @import { Stream, Turn } from "../../../assets/js/stream/reducer.js" */

/** @param {Turn} turn */
function shown({ run, state, lanes, level, end }) {
  const held = Object.entries(lanes).map(([name, lane]) => {
    const { tokens, seconds, steps } = lane;
    return [name, { tokens, seconds, sources: sourcesIn(lane), text: textBefore(lane, steps.length) }];
  });
  return { run, state, level, lanes: Object.fromEntries(held), figures: end?.figures ?? null };
}

/** @type {RunMessage[]} */
const messages = JSON.parse(await text(process.stdin));
/** @type {Stream} */
let stream = EMPTY;
for (const message of messages) stream = reduce(stream, message);
console.log(JSON.stringify({ behind: stream.behind, turns: stream.turns.map(shown) }));
