/** What gradio and visual/widgets.py hand to a tab's `mount`. Types only. */

/**
 * @template Facts
 * @typedef {object} Host
 * @property {HTMLElement} element
 * @property {{ value: string }} props value: the last message, as JSON
 * @property {(name: "value", changed: () => void) => void} watch
 * @property {Facts} facts what the server said when the page was built
 * @property {Ask} ask
 */

/** @typedef {(what: string, data?: Record<string, unknown>) => void} Ask an event for the server */

/**
 * A row of the palette (visual/palette.py).
 * @typedef {{ source: string, name: string, meaning: string, hatch: string, dash: string }} Look
 */

/**
 * A method's one-line description, by preset.
 * @typedef {{ methods: Record<string, string> }} Methods
 */

export {};
