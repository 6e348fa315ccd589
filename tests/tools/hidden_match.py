"""Which of several matches to follow: the newest, or the one with the nearest hidden state (PLD+, 2412.01447)?

PYTHONPATH=. python tests/tools/hidden_match.py RECORDING...

Recordings of `python -m spectra.bench record`, of the embedded model. Wherever the last two tokens stood in the text
before, one match is followed for at most 7 tokens, and those that the model wrote are counted. The hidden state of the
last token is not known before it is scored, so that of the token before it is compared.
"""

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch

from spectra import load_target

FOLLOWED = 7
LONGEST = 16
LAYERS = range(0, 31, 3)
"""Of SmolLM2-135M: the embedding and every third layer's output."""


def matches(ids: Sequence[int], prompt: int) -> Iterator[tuple[int, list[int]]]:
    """(a position of the answer, the earlier ends of its last two tokens, oldest first) where there are any."""
    ends: dict[tuple[int, int], list[int]] = defaultdict(list)
    for last in range(1, len(ids) - 1):
        pair = ids[last - 1], ids[last]
        if last >= prompt - 1 and ends[pair]:
            yield last, list(ends[pair])
        ends[pair].append(last)


def matched(ids: Sequence[int], last: int, end: int) -> int:
    """How many tokens before and at `end` are those before and at `last`."""
    length = 0
    while length < LONGEST and length <= end and ids[end - length] == ids[last - length]:
        length += 1
    return length


def written(ids: Sequence[int], last: int, end: int) -> int:
    """How many tokens after `end` the model wrote after `last`."""
    count = 0
    while count < FOLLOWED and last + count + 1 < len(ids) and end + count < last:
        if ids[end + count + 1] != ids[last + count + 1]:
            break
        count += 1
    return count


def choices(
    ids: Sequence[int], last: int, ends: Sequence[int], states: Mapping[int, torch.Tensor]
) -> Iterator[tuple[str, int]]:
    """(a rule, the match that it follows). states: layer -> [tokens, hidden], of length one each."""
    lengths = [matched(ids, last, end) for end in ends]
    longest = [end for end, length in zip(ends, lengths, strict=True) if length == max(lengths)]
    times = Counter(ids[end + 1] for end in ends)
    yield "the newest of the longest", longest[-1]
    yield "the most frequent continuation", max(ends, key=lambda end: (times[ids[end + 1]], end))
    for layer, state in states.items():
        near = state[[end - 1 for end in longest]] @ state[last - 1]
        yield f"the nearest of the longest, layer {layer}", longest[int(near.argmax())]
    yield "the best of all (known afterwards)", max(ends, key=lambda end: written(ids, last, end))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="+", type=Path, metavar="RECORDING")
    files = parser.parse_args().recordings
    model = load_target(dtype="fp32", numerics="fast", step="eager").model.model
    tokens: Counter[str] = Counter()
    first: Counter[str] = Counter()
    positions = 0
    for line in (line for file in files for line in file.read_text(encoding="utf-8").splitlines()[1:]):
        answer = json.loads(line)
        ids = [*answer["prompt"], *answer["answer"]]
        with torch.inference_mode():
            hidden = model(torch.tensor([ids]), output_hidden_states=True).hidden_states
        states = {layer: torch.nn.functional.normalize(hidden[layer][0], dim=-1) for layer in LAYERS}
        for last, ends in matches(ids, len(answer["prompt"])):
            positions += 1
            for rule, end in choices(ids, last, ends, states):
                count = written(ids, last, end)
                tokens[rule] += count
                first[rule] += count > 0
    print(f"{positions} positions whose last two tokens stood in the text before")
    print("| followed | tokens that were written | the first one |\n|---|---:|---:|")
    for rule, count in tokens.items():
        print(f"| {rule} | {count / positions:.2f} | {first[rule] / positions:.1%} |")


if __name__ == "__main__":
    main()
