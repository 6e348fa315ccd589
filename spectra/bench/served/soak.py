"""`python -m spectra.bench soak`: many requests of random lengths, some of them left early, and what memory does."""

import argparse
import asyncio
import random
from pathlib import Path

from spectra.bench.served.client import Server
from spectra.bench.served.command import server_flags
from spectra.bench.served.server import Running
from spectra.bench.tasks import Prompt, load_prompts
from spectra.bench.values import names
from spectra.cli import number
from spectra.errors import SpectraError
from spectra.settings import check_number

LOT = 25
"""Requests between two looks at the memory."""
LEFT = 0.3
"""Part of the requests that are left early."""
GROWN = 1.05
"""What the memory may be at the end, of what it was half way."""


def run_soak(chosen: argparse.Namespace) -> int:
    """The subcommand `soak`: a line every few requests; 1 when the memory kept growing."""
    check_number("requests", chosen.requests, 4 * LOT, 1_000_000, whole=True)
    check_number("clients", chosen.clients, 1, 1024, whole=True)
    prompts = load_prompts(chosen.tasks, chosen.data, chosen.limit)
    dice = random.Random(chosen.seed)
    chosen.out.mkdir(parents=True, exist_ok=True)
    running = Running(chosen.python, chosen.port, server_flags(chosen, k=str(chosen.k)), chosen.out / "soak.log")
    print("| requests | answered | left early | preemptions | accepted | memory, MB |\n|---:|---:|---:|---:|---:|---:|")
    held = []
    with running as server:
        answered = 0
        for done in range(LOT, chosen.requests + 1, LOT):
            answered += asyncio.run(lot(server, prompts, dice, chosen.clients, chosen.max_new_tokens))
            counted = asyncio.run(server.metrics())
            held.append(running.resident() / 1e6)
            print(
                f"| {done} | {answered} | {done - answered} | {counted.get('vllm:num_preemptions_total', 0):.0f} "
                f"| {counted.get('vllm:spec_decode_num_accepted_tokens_total', 0):.0f} | {held[-1]:.0f} |",
                flush=True,
            )
    if "SPECTRA could not draft" in running.log.read_text(encoding="utf-8", errors="replace"):
        raise SpectraError("server", f"drafting failed; see {running.log}")
    return int(held[-1] > GROWN * held[len(held) // 2])


async def lot(server: Server, prompts: list[Prompt], dice: random.Random, clients: int, tokens: int) -> int:
    """LOT requests, sampled at many temperatures; how many were answered to their end."""
    free = asyncio.Semaphore(clients)

    async def one(prompt: Prompt, length: int, temperature: float, leave: float) -> bool:
        async with free:
            asked = [{"role": "user", "content": prompt.text}]
            return await server.chat(asked, length, temperature=temperature, leave=leave) is not None

    wanted = [
        one(
            dice.choice(prompts),
            dice.randrange(1, tokens + 1),
            dice.choice((0.0, 0.0, 0.7, 1.0)),
            dice.uniform(0.05, 3.0) if dice.random() < LEFT else 0.0,
        )
        for _ in range(LOT)
    ]
    return sum(await asyncio.gather(*wanted))


def add_soak_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `soak` besides those of its server."""
    parser.add_argument("--tasks", type=names, default=["mt-bench", "gsm8k", "humaneval", "mbpp"])
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder with the published task files")
    parser.add_argument("--limit", type=number(int), help="prompts a task")
    parser.add_argument("--requests", type=number(int), default=200)
    parser.add_argument("--clients", type=number(int), default=16)
    parser.add_argument("--max-new-tokens", type=number(int), default=192)
    parser.add_argument("--seed", type=number(int), default=0)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
