"""Visitors of a page with a model, who talk and race for 64 tokens: how long they wait, and whether anything is mixed.

python tests/tools/model_load.py --visitors 20 --seconds 120 --out out/load

See load.py, which serves the page and counts. Every text is compared with those of the same questions, and the seconds
to every first token are told.
"""

import argparse
import time
from pathlib import Path
from typing import Any

from load import Visitor, run, tell

TOKENS = 64
TURNS = 3
QUESTIONS = (
    "Write a Python function that sorts words by their length.",
    "What is the capital of France, and what is it known for?",
    "Explain in a few sentences how rain forms.",
    "Write a Python class for a bank account with deposit and withdraw.",
    "Give me three ideas for a short walk.",
    "Now say the same in other words.",
    "How does a bicycle stay upright?",
)


class Asker(Visitor):
    """Talks to the model, or lets it race.

    waits: seconds to every first token. rates: of turns of a conversation, tokens a second on the clock from the first
    to the last one. plain: tokens a second of plain decoding alone. texts: those of all, by their questions.
    """

    habits = ("talk", "talk", "talk", "compete")
    pauses = (0.2, 2.0)
    waits: list[float]
    rates: list[float]
    plain: list[float]
    texts: dict[tuple[str, ...], str]

    def visit(self) -> None:
        super().visit()
        self.asked: list[str] = []

    async def talk(self) -> None:
        """The next question of a conversation; a new one begins after some turns."""
        if len(self.asked) == TURNS:
            self.visit()
        self.asked.append(self.dice.choice(QUESTIONS))
        fields = {"chat-prompt": self.asked[-1], "chat-max_new_tokens": TOKENS}
        await self.answer(self.page.chat, fields, tuple(self.asked))

    async def compete(self) -> None:
        question = self.dice.choice(QUESTIONS)
        await self.answer(self.page.race, {"prompt": question, "max_new_tokens": TOKENS}, (question,))

    async def answer(self, handler: int, fields: dict[str, Any], asked: tuple[str, ...]) -> None:
        began, first, kinds = time.monotonic(), 0.0, set()
        if not await self.ask(handler, self.page.form(handler, **fields)):
            return
        lanes: dict[str, str] = {}
        async for message in self.messages(asked[-1]):
            kinds.add(message["kind"])
            for lane, steps in message["lanes"].items() if message["kind"] == "delta" else ():
                lanes[lane] = lanes.get(lane, "") + "".join(text for step in steps for _, text in step["pieces"])
                first = first or (time.monotonic() - began if steps else 0.0)
            if message["kind"] == "end":
                self.ended(message, time.monotonic() - began - first)
        self.counts["whole answers"] += "end" in kinds
        self.counts["told that the line is full"] += "refused" in kinds
        self.counts["neither"] += not {"end", "refused"} & kinds
        if first:
            self.waits.append(first)
        for text in lanes.values() if "end" in kinds else ():
            self.counts["another text"] += self.texts.setdefault(asked, text) != text

    def ended(self, message: dict[str, Any], seconds: float) -> None:
        """seconds: since the first token."""
        self.counts[f"ended {message['state']}"] += 1
        readout = message.get("readout")
        if readout and readout["tokens"] == TOKENS:
            self.rates.append(TOKENS / seconds)
            self.plain.append(readout["plain"])
            self.counts["turns shared" if readout["shared"] else "turns alone"] += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visitors", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--out", type=Path, default=Path("out/load"))
    options = parser.parse_args()
    Asker.waits, Asker.rates, Asker.plain, Asker.texts = [], [], [], {}
    counts, rows = run(options.visitors, min(options.seconds, 3600), options.out, model=options.model, kind=Asker)
    tell(options.visitors, counts, rows)
    waits, rates = sorted(Asker.waits), sorted(Asker.rates)
    print(f"  another text for the same questions: {counts['another text']}")
    text = f"{waits[len(waits) // 2]:.2f} in the middle, {waits[19 * len(waits) // 20]:.2f} for 95 of 100"
    print(f"  seconds to the first of {TOKENS} tokens, {len(waits)} answers: {text}, {waits[-1]:.2f} at most")
    text = f"{rates[len(rates) // 2]:.1f} in the middle, {rates[len(rates) // 20]:.1f} for 95 of 100"
    print(f"  tokens a second of a turn: {text}, {rates[0]:.1f} at least; plain alone {Asker.plain[0]:.1f}")


if __name__ == "__main__":
    main()
