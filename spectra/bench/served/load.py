"""`python -m spectra.bench serve`: concurrent clients against vLLM, plain, with its own drafters and with SPECTRA's.

One server at a time, since an idle one takes a core too; `--repeats` starts them all again, so that drift shows. First
turns only. A run that was stopped goes on where it was.
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from spectra.bench.run.rows import Row, claimed_rows
from spectra.bench.run.runner import Cell, Item, resume
from spectra.bench.served.client import Reply, Server
from spectra.bench.served.server import RunningServer, ServerOptions
from spectra.bench.tasks import Prompt, PromptOptions
from spectra.errors import SpectraError
from spectra.io.files import write_text
from spectra.serving.check import MAX_K, METHODS
from spectra.settings import Limits, check_number

PLAIN, NGRAM = "plain", "ngram"
COUNTED = {
    "drafts": "vllm:spec_decode_num_drafts_total",
    "drafted": "vllm:spec_decode_num_draft_tokens_total",
    "accepted": "vllm:spec_decode_num_accepted_tokens_total",
    "preemptions": "vllm:num_preemptions_total",
}
"""What a row takes from the server's own counters."""
WARM_UP = 24
HEADER = (
    "| clients | method | tokens/s | of plain | of ngram | first token, ms (median, 99th) "
    "| a token, ms (median, 99th) | guesses a draft | accepted | tokens a drafted step | identical |"
)
TASKS = ("mt-bench", "gsm8k", "humaneval", "mbpp")

Thing = TypeVar("Thing")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """methods: METHOD or METHOD:K, the most guessed tokens of this one. concurrency: numbers of clients."""

    prompts: PromptOptions
    server: ServerOptions
    out: Path
    methods: tuple[str, ...] = (PLAIN, "ngram:5", "suffix", "spectra")
    concurrency: tuple[int, ...] = (1, 4, 16)
    repeats: int = 1
    max_new_tokens: int = 128

    def __post_init__(self) -> None:
        for method in self.methods:
            name, colon, own = method.partition(":")
            if name not in METHODS:
                raise SpectraError("methods", f"{method!r} is unknown; choose from {', '.join(METHODS)}")
            if colon and not (own.isdecimal() and len(own) < 9):
                raise SpectraError("methods", f"{method[:80]!r} names no number of guesses; give for example {name}:5")
            if colon:
                check_number("methods", int(own), 1, MAX_K, whole=True)
        for clients in self.concurrency:
            check_number("concurrency", clients, 1, 1024, whole=True)
        check_number("repeats", self.repeats, 1, 1000, whole=True)
        Limits(self.max_new_tokens)


@dataclass(frozen=True, slots=True)
class Start:
    """One start of one method's server."""

    method: str
    repeat: int

    @property
    def key(self) -> Mapping[str, Any]:
        return {"method": self.method, "repeat": self.repeat}


class Starts:
    """Says which method is not measured because its server does not start; without plain decoding nothing goes on."""

    def step(self, *, ran: bool = True) -> None:
        """Nothing to print: each row is printed when it is measured."""

    def leave_out(self, item: Item, error: SpectraError) -> None:
        if item.key["method"] == PLAIN:
            raise error
        print(f"{item.key['method']} is not measured: {error}", flush=True)


def run_serve(options: ServeOptions) -> int:
    """The subcommand `serve`. A method whose server does not start is named and left out."""
    prompts = options.prompts.load()
    settings = {
        "max_new_tokens": options.max_new_tokens, "k": options.server.k, "flags": options.server.flags,
        "limit": options.prompts.limit, "prompts": [prompt.id for prompt in prompts],
    }  # fmt: skip
    rows = claimed_rows(options.out, settings, needed=("method", "clients", "repeat"))
    methods = list(dict.fromkeys([PLAIN, *options.methods]))
    starts = [Start(method, repeat) for repeat in range(options.repeats) for method in methods]
    cells = [{"clients": clients} for clients in options.concurrency]

    def measure(start: Start, missing: Sequence[Cell]) -> Iterator[Row]:
        name, _, own = start.method.partition(":")
        command = options.server.command(name, int(own) if own else None)
        with RunningServer(command, options.server.port, options.out / f"{name}{own}.log") as server:
            for cell in missing:
                row = asyncio.run(load(server, prompts, cell["clients"], options.max_new_tokens))
                yield row
                print(f"{start.method}, {cell['clients']} at once: {rate([row]):.1f} tokens/s", flush=True)

    resume(rows, starts, cells, measure, Starts())
    measured = [method for method in methods if any(row["method"] == method for row in rows.all)]
    text = markdown(rows.all, measured)
    write_text(options.out / "report.md", text + "\n", "out")
    print(text)
    return 0


async def load(server: Server, prompts: Sequence[Prompt], clients: int, tokens: int) -> Row:
    """The fields of a row: every prompt once, `clients` at a time, after each client's warm-up."""
    await each(prompts[:clients], clients, lambda prompt: ask(server, prompt, WARM_UP))
    before = await server.metrics()
    began = time.perf_counter()
    replies = await each(prompts, clients, lambda prompt: ask(server, prompt, tokens))
    seconds = time.perf_counter() - began
    after = await server.metrics()
    return {
        "seconds": seconds,
        "tokens": sum(reply.tokens for reply in replies),
        **{name: after.get(key, 0.0) - before.get(key, 0.0) for name, key in COUNTED.items()},
        "requests": [
            {"task": prompt.task, "id": prompt.id, "tokens": reply.tokens, "first": reply.first,
             "each": reply.each, "text": reply.text}
            for prompt, reply in zip(prompts, replies, strict=True)
        ],
    }  # fmt: skip


async def ask(server: Server, prompt: Prompt, tokens: int) -> Reply:
    """A greedy answer to the first turn."""
    reply = await server.chat([{"role": "user", "content": prompt.text}], tokens)
    assert reply is not None
    return reply


async def each(items: Sequence[Thing], clients: int, work: Callable[[Thing], Awaitable[Result]]) -> list[Result]:
    """The results of `work`, in order, with at most `clients` of them under way."""
    free = asyncio.Semaphore(clients)

    async def one(item: Thing) -> Result:
        async with free:
            return await work(item)

    return list(await asyncio.gather(*(one(item) for item in items)))


def markdown(rows: Sequence[Row], methods: Sequence[str]) -> str:
    """A Markdown table: one line a number of clients and method.

    of ngram: of the faster one where it ran with several numbers of guesses. tokens a drafted step: of a request that
    had guesses. identical: answers whose text is plain vLLM's with the fewest clients.
    """
    lines = [HEADER, "|" + "---:|---|" + "---:|" * 9]
    counts = sorted({row["clients"] for row in rows})
    alone = texts(_of(rows, PLAIN, counts[0])) if counts else {}
    for count in counts:
        plain = rate(_of(rows, PLAIN, count))
        ngram = max((rate(_of(rows, method, count)) for method in methods if method.startswith(NGRAM)), default=0.0)
        for method in methods:
            some = _of(rows, method, count)
            if not some:
                lines.append(f"| {count} | {method} | not measured |" + " |" * 8)
                continue
            requests = [request for row in some for request in row["requests"]]
            firsts = _spread([1000 * request["first"] for request in requests])
            others = _spread([1000 * request["each"] for request in requests if request["tokens"] > 1])
            drafts = sum(row["drafts"] for row in some)
            drafted = sum(row["drafted"] for row in some)
            accepted = sum(row["accepted"] for row in some)
            same = [request for request in some[0]["requests"] if alone.get(request["id"]) == request["text"]]
            cells = [
                str(count), method, f"{rate(some):.1f}", _ratio(rate(some), plain), _ratio(rate(some), ngram),
                firsts, others, f"{drafted / drafts:.1f}" if drafts else "",
                f"{accepted / drafted:.0%}" if drafted else "", f"{1 + accepted / drafts:.2f}" if drafts else "",
                f"{len(same)} of {len(some[0]['requests'])}",
            ]  # fmt: skip
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def rate(rows: Sequence[Row]) -> float:
    """Tokens a second, the median over repeats; 0 without a row."""
    return statistics.median(row["tokens"] / row["seconds"] for row in rows) if rows else 0.0


def texts(rows: Sequence[Row]) -> dict[str, str]:
    """What the first of these runs answered to each prompt."""
    return {request["id"]: request["text"] for request in rows[0]["requests"]} if rows else {}


def _of(rows: Sequence[Row], method: str, clients: int) -> list[Row]:
    return [row for row in rows if row["method"] == method and row["clients"] == clients]


def _ratio(ours: float, theirs: float) -> str:
    return f"{ours / theirs:.2f}" if theirs else ""


def _spread(values: list[float]) -> str:
    if not values:
        return ""
    ordered = sorted(values)
    return f"{statistics.median(ordered):.0f}, {ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]:.0f}"
