/**
 * An answer's steps as pieces of text: what each looks like, whose tokens it holds, where code begins. No DOM.
 */

import { offersOf } from "./lane.js";
import { classOf } from "./step-facts.js";

/** @import { Step } from "./messages.js" */

const FENCE = "```";
const LETTER = /\p{L}/gu; // what is none is written in the direction of the text before it
const RIGHT_TO_LEFT = /[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;

/**
 * One or more tokens whose text is complete together. sources: who has the credit for each token. offers: everyone who
 * offered it. opens: its text begins a new line.
 * last: the token that ended the answer.
 * @typedef {object} Piece
 * @property {string} text
 * @property {string[]} sources
 * @property {string[][]} offers
 * @property {boolean} code
 * @property {boolean} opens
 * @property {boolean} last
 */

/**
 * A step's pieces. gap: space before its first word, which belongs to no piece, so that neither hairline nor tint hangs
 * at a line's end. leftward: it begins on its right. fenced: pieces of earlier steps that turn out to be code.
 * @typedef {object} Written
 * @property {string} gap
 * @property {Piece[]} pieces
 * @property {boolean} leftward
 * @property {Piece[]} fenced
 */

export class Transcript {
  /** @param {boolean} gaps whether a step's first space stands apart */
  constructor(gaps) {
    this.gaps = gaps;
    /** @type {Piece[]} */
    this.pieces = [];
    /** @type {string[][]} who offered the tokens whose text is not complete yet */
    this.waiting = [];
    /** The line being written, and its pieces. */
    this.line = "";
    /** @type {Piece[]} */
    this.row = [];
    this.fenced = false;
    this.leftward = false;
  }

  /**
   * @param {Step} step
   * @returns {Written}
   */
  add(step) {
    const { pieces, finish } = step;
    this.waiting.push(...offersOf(step));
    const open = this.line.length < FENCE.length; // a longer one is code already, or none
    const unmarked = open ? this.row.filter((piece) => !piece.code) : [];
    const fresh = pieces.map(([tokens, text]) => this.write(this.waiting.splice(0, tokens), text));
    const gap = this.gaps ? (pieces[0]?.[1].match(/^ +(?=\S)/)?.[0] ?? "") : "";
    if (gap) fresh[0].text = fresh[0].text.slice(gap.length);
    const last = fresh.at(-1);
    if (last && finish === "eos") last.last = true;
    const text = pieces.map(([, part]) => part).join("");
    const letters = text.match(LETTER) ?? [];
    const leftward = letters.length ? RIGHT_TO_LEFT.test(letters[0] ?? "") : this.leftward;
    if (letters.length) this.leftward = RIGHT_TO_LEFT.test(letters.at(-1) ?? "");
    return { gap, pieces: fresh, leftward, fenced: unmarked.filter((piece) => piece.code) };
  }

  /**
   * @param {string[][]} offers
   * @param {string} text
   */
  write(offers, text) {
    const sources = offers.map(([first]) => first);
    /** @type {Piece} */
    const piece = { text, sources, offers, code: this.fenced, opens: text.startsWith("\n"), last: false };
    this.pieces.push(piece);
    this.row.push(piece);
    const [rest, ...lines] = text.split("\n");
    this.line += rest;
    for (const line of lines) {
      if (this.line.startsWith(FENCE)) this.fenced = !this.fenced;
      this.line = line;
      this.row = [piece];
    }
    if (this.line.startsWith(FENCE)) for (const each of this.row) each.code = true;
    if (this.fenced) piece.code = true;
    return piece;
  }

  /**
   * The piece that holds an output token.
   * @param {number} index
   */
  pieceOf(index) {
    let seen = 0;
    return this.pieces.find(({ sources }) => {
      seen += sources.length;
      return seen > index;
    });
  }
}

/**
 * The classes of a piece on the page: its underline and tint are those of the source of its last token. "shared":
 * several sources offered one of its tokens.
 * @param {Piece} piece
 */
export function classesOf({ sources, offers, code, opens, last }) {
  const shared = offers.some((each) => each.length > 1) && "shared";
  return ["t", classOf(sources[sources.length - 1]), shared, code && "code", opens && "break", last && "last"]
    .filter(Boolean)
    .join(" ");
}
