"""`python -m spectra.bench serve`: concurrent clients against vLLM, plain, with its own drafters and with SPECTRA's.

One server at a time, since an idle one takes a core too; `--repeats` starts them all again, so that drift shows. First
turns only. A run that was stopped goes on where it was.
"""

import argparse
import asyncio
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spectra.bench.rows import Rows, claim
from spectra.bench.served.client import Reply, Server
from spectra.bench.served.server import Running, default_python
from spectra.bench.served.tables import markdown
from spectra.bench.tasks import Prompt, load_prompts
from spectra.bench.values import names
from spectra.cli import number
from spectra.errors import SpectraError
from spectra.serving.check import METHODS
from spectra.settings import check_number
from spectra.trace import write_text

PLAIN = "plain"
COUNTED = {
    "drafts": "vllm:spec_decode_num_drafts_total",
    "drafted": "vllm:spec_decode_num_draft_tokens_total",
    "accepted": "vllm:spec_decode_num_accepted_tokens_total",
    "preemptions": "vllm:num_preemptions_total",
}
"""What a row takes from the server's own counters."""
WARM_UP = 24


def run_serve(chosen: argparse.Namespace) -> int:
    """The subcommand `serve`. A method whose server does not start is named and left out."""
    for method in chosen.methods:
        if method.partition(":")[0] not in METHODS:
            raise SpectraError("methods", f"{method!r} is unknown; choose from {', '.join(METHODS)}")
    clients = [_whole("concurrency", text) for text in chosen.concurrency]
    check_number("repeats", chosen.repeats, 1, 1000, whole=True)
    prompts = load_prompts(chosen.tasks, chosen.data, chosen.limit)
    settings = {
        "max_new_tokens": chosen.max_new_tokens, "k": chosen.k, "flags": chosen.flags, "limit": chosen.limit,
        "prompts": [prompt.id for prompt in prompts],
    }  # fmt: skip
    claim(chosen.out, settings)
    rows = Rows(chosen.out, needed=("method", "clients", "repeat"))
    methods = [PLAIN, *[method for method in dict.fromkeys(chosen.methods) if method != PLAIN]]
    done = {(row["method"], row["clients"], row["repeat"]) for row in rows.all}
    for repeat in range(chosen.repeats):
        for method in methods:
            wanted = [count for count in clients if (method, count, repeat) not in done]
            if wanted:
                _measure_all(chosen, rows, prompts, method, wanted, repeat)
    text = markdown(rows.all, [method for method in methods if any(row["method"] == method for row in rows.all)])
    write_text(chosen.out / "report.md", text + "\n", "out")
    print(text)
    return 0


def _measure_all(
    chosen: argparse.Namespace, rows: Rows, prompts: list[Prompt], method: str, wanted: list[int], repeat: int
) -> None:
    """A server of this method, asked by each number of clients in turn."""
    name, _, own = method.partition(":")
    flags = server_flags(chosen, "--method", name, k=own or str(chosen.k))
    running = Running(chosen.python, chosen.port, flags, chosen.out / f"{name}{own}.log")
    try:
        with running as server:
            for count in wanted:
                row = asyncio.run(measure(server, prompts, count, chosen.max_new_tokens))
                rows.add({"method": method, "clients": count, "repeat": repeat, **row})
                print(f"{method}, {count} at once: {row['tokens'] / row['seconds']:.1f} tokens/s", flush=True)
    except SpectraError as error:
        if method == PLAIN:
            raise
        print(f"{method} is not measured: {error}", flush=True)


def server_flags(chosen: argparse.Namespace, *more: str, k: str) -> list[str]:
    """What `python -m spectra.serving` is called with."""
    ours = [flag for place in chosen.datastore for flag in ("--datastore", str(Path(place).resolve()))]
    model = ["--model", chosen.model] if chosen.model else []
    return [*more, "--k", k, *model, *ours, *shlex.split(chosen.flags)]


async def measure(server: Server, prompts: list[Prompt], clients: int, tokens: int) -> dict[str, Any]:
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


async def each(items: list[Any], clients: int, work: Callable[[Any], Any]) -> list[Any]:
    """The results of `work`, in order, with at most `clients` of them under way."""
    free = asyncio.Semaphore(clients)

    async def one(item: Any) -> Any:
        async with free:
            return await work(item)

    return list(await asyncio.gather(*(one(item) for item in items)))


def _whole(field: str, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise SpectraError(field, f"{text!r} is not a whole number; give for example 1,4,16") from None
    check_number(field, value, 1, 1024, whole=True)
    return value


def add_serve_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `serve` besides those of its servers."""
    parser.add_argument(
        "--methods", type=names, default=["plain", "ngram:5", "suffix", "spectra"], metavar="METHOD[:K],...",
        help="K: the most guessed tokens of this one, in the place of --k",
    )  # fmt: skip
    parser.add_argument("--concurrency", type=names, default=["1", "4", "16"], help="clients, with commas between")
    parser.add_argument("--repeats", type=number(int), default=1)
    parser.add_argument("--tasks", type=names, default=["mt-bench", "gsm8k", "humaneval", "mbpp"])
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder with the published task files")
    parser.add_argument("--limit", type=number(int), help="prompts a task")
    parser.add_argument("--max-new-tokens", type=number(int), default=128)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")


def add_server_arguments(parser: argparse.ArgumentParser) -> None:
    """How servers are started."""
    parser.add_argument("--python", default=default_python(), metavar="PATH", help="the interpreter that has vLLM")
    parser.add_argument("--port", type=number(int), default=8100, help="of the server")
    parser.add_argument("--model", help="a hub id or a folder (default: the embedded SmolLM2-135M-Instruct)")
    parser.add_argument("--k", type=number(int), default=8, help="the most guessed tokens a request and step")
    parser.add_argument("--datastore", action="append", default=[], metavar="PATH")
    parser.add_argument("--flags", default="--max-model-len 2048", help="of `vllm serve`, in one argument")
