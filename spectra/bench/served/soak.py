"""`python -m spectra.bench soak`: many requests of random lengths, some of them left early, and what memory does."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spectra.bench.run.rows import make_folder
from spectra.bench.served.client import Server
from spectra.bench.served.load import each
from spectra.bench.served.server import RunningServer, ServerOptions
from spectra.bench.tasks import Prompt, PromptOptions
from spectra.errors import SpectraError
from spectra.settings import Limits, check_number

BATCH = 25
"""Requests between two looks at the memory."""
LEFT = 0.3
"""Part of the requests that are left early."""
GROWN = 1.05
"""What the memory may be at the end, of what it was half way."""


@dataclass(frozen=True, slots=True)
class SoakOptions:
    """requests: in all. clients: at once. max_new_tokens: of the longest answer."""

    prompts: PromptOptions
    server: ServerOptions
    out: Path
    requests: int = 200
    clients: int = 16
    max_new_tokens: int = 192
    seed: int = 0

    def __post_init__(self) -> None:
        check_number("requests", self.requests, 4 * BATCH, 1_000_000, whole=True)
        check_number("clients", self.clients, 1, 1024, whole=True)
        Limits(self.max_new_tokens)


def run_soak(options: SoakOptions) -> int:
    """The subcommand `soak`: a line every few requests; 1 when the memory kept growing."""
    prompts = options.prompts.load()
    draws = random.Random(options.seed)
    make_folder(options.out)
    running = RunningServer(options.server.command(), options.server.port, options.out / "soak.log")
    print("| requests | answered | left early | preemptions | accepted | memory, MB |\n|---:|---:|---:|---:|---:|---:|")
    held = []
    answered = 0
    with running as server:
        for done in range(BATCH, options.requests + 1, BATCH):
            answered += asyncio.run(one_batch(server, prompts, draws, options.clients, options.max_new_tokens))
            counted = asyncio.run(server.metrics())
            held.append(running.resident() / 1e6)
            preemptions = counted.get("vllm:num_preemptions_total", 0)
            accepted = counted.get("vllm:spec_decode_num_accepted_tokens_total", 0)
            print(
                f"| {done} | {answered} | {done - answered} | {preemptions:.0f} | {accepted:.0f} | {held[-1]:.0f} |",
                flush=True,
            )
    if "SPECTRA could not draft" in running.log.read_text(encoding="utf-8", errors="replace"):
        raise SpectraError("server", f"drafting failed; see {running.log}")
    return 1 if held[-1] > GROWN * held[len(held) // 2] else 0


async def one_batch(server: Server, prompts: Sequence[Prompt], draws: random.Random, clients: int, tokens: int) -> int:
    """BATCH requests, sampled at many temperatures; how many were answered to their end."""

    async def one(_: int) -> bool:
        asked = [{"role": "user", "content": draws.choice(prompts).text}]
        length, temperature = draws.randrange(1, tokens + 1), draws.choice((0.0, 0.0, 0.7, 1.0))
        leave = draws.uniform(0.05, 3.0) if draws.random() < LEFT else 0.0
        return await server.chat(asked, length, temperature=temperature, leave=leave) is not None

    return (await each(range(BATCH), clients, one)).count(True)
