"""The benchmark prompts as hashes, so that a datastore can be checked for them without any prompt being kept."""

import argparse
from collections.abc import Iterable, Iterator

from spectra.bench.tasks import Prompt, load_prompts
from spectra.datastore.sources import digest


def run_prompts(chosen: argparse.Namespace) -> int:
    """Print the hashes, sorted, one a line."""
    print("\n".join(prompt_hashes(load_prompts(None, chosen.data))))
    return 0


def prompt_hashes(prompts: Iterable[Prompt]) -> list[str]:
    """sha256 of every normalised turn, and of what a turn asks about: what follows its first blank line."""
    return sorted({digest(text).hex() for prompt in prompts for turn in prompt.turns for text in _parts(turn)})


def _parts(turn: str) -> Iterator[str]:
    yield turn
    inner = turn.partition("\n\n")[2]
    if inner.strip():
        yield inner
