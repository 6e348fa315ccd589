/** Text of a lane: pieces, their sources and classes, code between fences, the space before a step. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { classesOf, Transcript } from "../../assets/js/stream/transcript.js";
import { stepOf } from "./support/runs.js";

/** @import { Piece } from "../../assets/js/stream/transcript.js" */

/**
 * A transcript of steps that each wrote these texts, one token each.
 * @param {string[][]} steps
 */
function written(...steps) {
  const transcript = new Transcript(true);
  const added = steps.map((texts) =>
    transcript.add(
      stepOf(
        texts.map(() => "model"),
        { pieces: texts.map((text) => [1, text]) },
      ),
    ),
  );
  return { transcript, added };
}

/** @param {Transcript} transcript */
const codeIn = (transcript) => transcript.pieces.filter(({ code }) => code).map(({ text }) => text);

describe("pieces", () => {
  test("have the source of each of their tokens", () => {
    const transcript = new Transcript(false);
    const sources = ["forward", "retrieval", "model"];
    const { pieces } = transcript.add(
      stepOf(sources, {
        pieces: [
          [2, "ab"],
          [1, "c"],
        ],
      }),
    );
    assert.deepEqual(
      pieces.map((piece) => [piece.text, piece.sources]),
      [
        ["ab", ["forward", "retrieval"]],
        ["c", ["model"]],
      ],
    );
  });

  test("take up tokens of earlier steps whose text was not complete", () => {
    const transcript = new Transcript(true);
    assert.deepEqual(transcript.add(stepOf(["forward", "model"], { pieces: [[1, "Caf"]] })).pieces.length, 1);
    assert.deepEqual(transcript.add(stepOf(["retrieval"], { pieces: [] })).pieces, []);
    const [piece] = transcript.add(stepOf(["model"], { pieces: [[3, "é"]] })).pieces;
    assert.deepEqual(piece.sources, ["model", "retrieval", "model"]);
    assert.deepEqual(transcript.waiting, []);
  });

  test("are found by the token they hold", () => {
    const transcript = new Transcript(true);
    transcript.add(
      stepOf(["model", "model", "model"], {
        pieces: [
          [2, "ab"],
          [1, "c"],
        ],
      }),
    );
    assert.deepEqual(
      [0, 1, 2, 3].map((index) => transcript.pieceOf(index)?.text),
      ["ab", "ab", "c", undefined],
    );
  });
});

describe("classes", () => {
  /** @type {Piece} */
  const piece = { text: "x", sources: ["model"], offers: [["model"]], code: false, opens: false, last: false };

  test("name the source of the last token, which is what underlines the piece", () => {
    assert.equal(classesOf({ ...piece, sources: ["forward", "retrieval"] }), "t source-retrieval");
  });

  test("of a source that is named as one of them are not that one", () => {
    for (const own of ["code", "step", "last", "shared", "break"])
      assert.equal(classesOf({ ...piece, sources: [own] }), `t source-${own}`);
  });

  test("say what else the piece is", () => {
    assert.equal(classesOf({ ...piece, code: true }), "t source-model code");
    assert.equal(classesOf({ ...piece, offers: [["model"], ["forward", "ngram"]] }), "t source-model shared");
    assert.equal(classesOf({ ...piece, opens: true }), "t source-model break");
    assert.equal(classesOf({ ...piece, code: true, opens: true, last: true }), "t source-model code break last");
  });

  test("mark the token that ended the answer, not one at the limit", () => {
    const ended = new Transcript(true).add(stepOf(["forward", "model"], { finish: "eos" }));
    assert.deepEqual(
      ended.pieces.map(({ last }) => last),
      [false, true],
    );
    const cut = new Transcript(true).add(stepOf(["forward", "model"], { finish: "length" }));
    assert.ok(cut.pieces.every(({ last }) => !last));
  });

  test("mark a piece that opens a line", () => {
    const { transcript } = written(["a", "\n", "\nb", "c\n"]);
    assert.deepEqual(
      transcript.pieces.map(({ opens }) => opens),
      [false, true, true, false],
    );
  });
});

describe("the space before a step", () => {
  test("stands apart from its first word", () => {
    const { added } = written([" The", " cat"]);
    assert.equal(added[0].gap, " ");
    assert.deepEqual(
      added[0].pieces.map(({ text }) => text),
      ["The", " cat"],
    );
  });

  test("stays where no word follows it", () => {
    const { added } = written(["  ", "x"], ["\n"], ["y"]);
    assert.deepEqual(
      added.map(({ gap }) => gap),
      ["", "", ""],
    );
    assert.equal(added[0].pieces[0].text, "  ");
  });

  test("stays where steps are not marked", () => {
    const { gap, pieces } = new Transcript(false).add(stepOf(["model"], { pieces: [[1, " The"]] }));
    assert.deepEqual([gap, pieces[0].text], ["", " The"]);
  });

  test("is none before a step that wrote nothing", () => {
    assert.equal(new Transcript(true).add(stepOf(["model"], { pieces: [] })).gap, "");
  });
});

describe("a step in text that is written from right to left", () => {
  test("begins on its right", () => {
    const { added } = written(["שלום"], [" עולם", "."], [" "], ["GPU", " של"], ["\n"], ["abc"], [" 12"]);
    assert.deepEqual(
      added.map(({ leftward }) => leftward),
      [true, true, true, false, true, false, false],
    );
  });
});

describe("code", () => {
  test("is what stands between fences, the fences themselves and the line end that leads to them", () => {
    const { transcript } = written(["Like", ":", "\n", "```", "py", "\n", "x", " = 1", "\n", "```", "\n", "So", "."]);
    assert.deepEqual(codeIn(transcript), ["\n", "```", "py", "\n", "x", " = 1", "\n", "```", "\n"]);
  });

  test("begins at a fence that came in parts, some in earlier steps", () => {
    const { transcript, added } = written(["a", "\n", "`"], ["`"], ["`", "py"]);
    assert.deepEqual(
      added.map(({ fenced }) => fenced.map(({ text }) => text)),
      [[], [], ["\n", "`", "`"]],
    );
    assert.deepEqual(codeIn(transcript), ["\n", "`", "`", "`", "py"]);
  });

  test("ends where a line begins with a fence, not where one stands in a line", () => {
    const { transcript } = written(["```\n", "a ``` b\n", "c\n", "```\n", "d"]);
    assert.deepEqual(codeIn(transcript), ["```\n", "a ``` b\n", "c\n", "```\n"]);
  });

  test("is not looked for again in all of a long line with each piece", () => {
    const { transcript } = written(Array(1000).fill("word "));
    let looked = 0;
    const get = () => {
      looked += 1;
      return false;
    };
    for (const piece of transcript.row) Object.defineProperty(piece, "code", { get });
    transcript.add(stepOf(["model"], { pieces: [[1, "end"]] }));
    assert.equal(looked, 0);
  });

  test("does not reach beyond a piece that holds a whole block", () => {
    const { transcript } = written(["x\n```\ny\n```\nz", "w"]);
    assert.deepEqual(codeIn(transcript), []);
  });
});
