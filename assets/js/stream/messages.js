/**
 * What the server sends about a run: one JSON object a message, written by visual/wire/events.py. Types only.
 *
 * A run decodes one or more lanes: "plain" and "method" in a race, "method" in a turn of a conversation, and one lane
 * for every method in a comparison.
 */

/**
 * A token tree in columns, one entry a node. Node 0 is the last token so far.
 * @typedef {object} Tree
 * @property {number[]} tokens
 * @property {number[]} parents -1 for node 0
 * @property {string[]} sources of each node, joined by commas; the first one made the guess
 * @property {(number | null)[] | null} chances
 * @property {number[]} rows where each node is drawn
 * @property {number[]} pool nodes that were scored but are no guesses
 */

/**
 * A step as Compare gets it. sources: who gave each token.
 * @typedef {object} BriefStep
 * @property {number} seconds
 * @property {string[]} sources
 * @property {number} [prefill] seconds before the first step
 */

/**
 * N-grams out of one row of tokens. origin: "pool", "text" or "rejected". place: the pool row. forward, backward: where
 * those begin that each dictionary took.
 * @typedef {{ origin: string, place: number, tokens: number[], forward: number[], backward: number[] }} Learned
 */

/**
 * What followed the same last `match` tokens in a datastore; texts: that hold it, perplexity: the lowest among them.
 * @typedef {object} Hit
 * @property {number} token
 * @property {number} match
 * @property {number} times
 * @property {number} seen
 * @property {string} store
 * @property {number | null} texts
 * @property {number | null} perplexity
 */

/**
 * forward: continuations of the last token, newest first. backward: [length of the suffix, token]. refined: a pool
 * row's prediction had to avoid known tokens.
 * @typedef {object} Inside
 * @property {number[][]} forward
 * @property {[number, number][]} backward
 * @property {boolean[]} refined
 * @property {Learned[]} learned
 * @property {Hit[]} hits
 */

/**
 * Guesses that were accepted, those whose parent was, all of them.
 * @typedef {[number, number, number]} Judged
 */

/**
 * A step with what it wrote: pieces are [number of tokens, text], each with the tokens whose text it completes.
 * @typedef {object} StepDetails
 * @property {[number, string][]} pieces
 * @property {number[]} picks the model's own token at each node of the accepted path
 * @property {Tree} [tree]
 * @property {number} [last] where nothing was guessed: the token that a tree would grow from
 * @property {number[]} [path] accepted nodes
 * @property {Record<string, number>} [held] n-grams each source held by then
 * @property {Inside} [inside] what dictionaries and datastores held and learned, where the visitor asked for it
 * @property {Record<string, Judged>} [judged] what came of the guesses of each source
 * @property {number} [offered] tokens the sources offered before the budget chose
 * @property {string} [finish] why the answer ended here: "eos" or "length"
 *
 * @typedef {BriefStep & StepDetails} Step
 */

/**
 * One lane's figures, computed by spectra.metrics.
 * @typedef {object} LaneFigures
 * @property {number} tokens
 * @property {number} passes
 * @property {number} seconds
 * @property {number} rate tokens a second
 * @property {number} tau tokens a forward pass
 * @property {number} first seconds to the first token
 * @property {number} distinct4 share of the answer's runs of four tokens that are distinct
 * @property {string} finish
 * @property {Record<string, number>} acceptance by source, of the guesses whose parent was accepted
 * @property {Record<string, number>} offered by source: those guesses
 * @property {Record<string, number>} of_guessed the acceptance by source of all guesses
 * @property {Record<string, number>} guessed by source
 */

/**
 * Where both answers of a race are equally long: that many tokens, and the seconds each lane took to them.
 * @typedef {object} Level
 * @property {number} tokens
 * @property {number} plain
 * @property {number} method
 */

/**
 * The figures of a race in which both lanes have written something.
 * @typedef {object} ComparedFigures
 * @property {LaneFigures} plain
 * @property {LaneFigures} method
 * @property {boolean} whole both answers came to their end
 * @property {boolean} drawn the method draws a text of its own, of plain decoding's distribution
 * @property {number | null} differs index of the first token that differs
 * @property {number} same tokens that agree from the start
 * @property {number | null} speedup null where others decoded beside it, or few tokens were decoded
 * @property {boolean} few too few tokens to compare times
 * @property {number} shared with how many others at most
 * @property {string} why it was not faster, in a sentence; "" where it was fast
 * @property {string} cut settings that the method did not take whole, in a sentence; "" for none
 * @property {Level} level
 */

/**
 * A race that was stopped before the method wrote anything has no comparison.
 * @typedef {ComparedFigures | { plain: LaneFigures | null, method: null }} RaceFigures
 */

/**
 * A row of Compare. changed: the settings of its method that were, in words. macro: tokens a second, the mean of the
 * steps' own (Mac-TP).
 * @typedef {object} ComparedRow
 * @property {string} lane
 * @property {string} method
 * @property {string} [changed]
 * @property {string} [cut] settings that the method did not take whole, in a sentence
 * @property {string} name
 * @property {number} tokens
 * @property {number} [seconds]
 * @property {number} rate
 * @property {number} [macro]
 * @property {number | null} [speedup]
 * @property {number | null} [macro_speedup]
 * @property {boolean} [few] too few tokens to compare times
 * @property {number | null} [offered] tokens that its sources offered, null where they do not tell
 * @property {number} tau
 * @property {number} passes
 * @property {number | null} [acceptance]
 * @property {number | null} [of_reached]
 * @property {number | null} differs
 * @property {boolean} [drawn]
 * @property {number} [shared] the most others that decoded in the same passes
 * @property {boolean} [open] its answer has not ended: figures of what there is of it
 */

/**
 * What one turn of a conversation cost; `estimate` compares it with plain decoding as it was measured.
 * @typedef {object} Readout
 * @property {number} tokens
 * @property {boolean} [pieces] those are pieces of a server's answer, which may hold several tokens or none whole
 * @property {string} [end] why a server ended it, where that was not its own end
 * @property {boolean} [blank] it ended and wrote nothing to show
 * @property {number} seconds
 * @property {number} first
 * @property {number} rate
 * @property {number} tau
 * @property {number} prompt
 * @property {number} kept
 * @property {number | null} [warm] answers it was taught by; null where it was cold
 * @property {number} plain
 * @property {number} context
 * @property {number} [shared] the most others that decoded in the same passes
 * @property {boolean} [few] too few tokens to compare times
 * @property {number | null} estimate
 */

/**
 * field: the input it belongs to, "" for none.
 * @typedef {{ field: string, text: string }} Problem
 */

/**
 * How the run was asked for; what a link to it holds.
 * @typedef {{ prompt: string, method: string } & Record<string, string | number>} Link
 */

/**
 * @typedef {{ letter: string, values: Record<string, number> }} Sweep
 */

/**
 * lanes: lane -> method. names: lane -> what the page calls it. cap: the most tokens an answer can have. recorded: what
 * ran where, in a recording. sweep: the setting that a comparison varies, and its value in the lanes that have one.
 * left: names of methods that were ticked and do not run by the model in use.
 * @typedef {object} Begin
 * @property {"begin"} kind
 * @property {string} run
 * @property {Record<string, string>} lanes
 * @property {Record<string, string>} names
 * @property {number} cap
 * @property {Link} link
 * @property {string} [recorded]
 * @property {Sweep} [sweep]
 * @property {string[]} [left]
 * @property {number} [turn]
 */

/**
 * New steps of each lane, `from` being how many came before.
 * @template {BriefStep} [S=Step]
 * @typedef {object} News
 * @property {string} run
 * @property {Record<string, number>} from
 * @property {Record<string, S[]>} lanes
 * @property {Level | null} [level]
 * @property {number} [shared] the most others that decoded in the same passes
 * @property {ComparedRow[]} [rows] of the methods that have ended
 * @property {Readout | null} [readout]
 * @property {number} [turn]
 */

/**
 * @template {BriefStep} [S=Step]
 * @typedef {{ kind: "delta" } & News<S>} Delta
 */

/** @typedef {"done" | "stopped" | "failed"} Outcome */

/**
 * counts: the steps of each lane that the page must hold by now. words: text by token id.
 * @typedef {object} End
 * @property {"end"} kind
 * @property {string} run
 * @property {Outcome} state
 * @property {Problem | null} problem
 * @property {Record<string, number>} counts
 * @property {RaceFigures} figures
 * @property {Record<number, string>} words
 * @property {ComparedRow[]} [rows]
 * @property {Readout | null} [readout]
 * @property {number} [turn]
 */

/**
 * A run from its start, in one message: what a page gets that missed one, and a whole recording.
 * @template {BriefStep} [S=Step]
 * @typedef {{ kind: "snapshot", begin: Begin, end: End | null } & News<S>} Snapshot
 */

/** @typedef {{ kind: "clear" }} Clear */

/**
 * The turns of a conversation from this one on are taken back. problem: why the last one was refused.
 * @typedef {{ kind: "back", turn: number, problem?: Problem | null }} Back
 */

/**
 * @template {BriefStep} [S=Step]
 * @typedef {Begin | Delta<S> | End | Snapshot<S> | Clear | Back} RunMessage
 */

/**
 * How many visitors are served before this one.
 * @typedef {{ kind: "waiting", ahead: number }} Waiting
 */

/**
 * A datastore is built before a method can begin.
 * @typedef {{ kind: "building", what: string, done: number, total: number }} Building
 */

/** @typedef {{ kind: "left" }} Left */

/** @typedef {{ kind: "refused" } & Problem} Refused */

/**
 * A file for the visitor.
 * @typedef {{ kind: "file", name: string, text: string }} FileMessage
 */

export {};
