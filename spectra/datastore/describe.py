"""A card in words: what a datastore was made of, what was kept, how large it is."""

from collections.abc import Iterator, Mapping
from typing import Any

BAR = 40


def describe_card(card: Mapping[str, Any]) -> Iterator[str]:
    """Lines for people."""
    kept, seen, index = card["kept"], card["seen"], card["index"]
    dropped = ", ".join(f"{count:,} {why}" for why, count in card["dropped"].items() if count)
    yield f"{card['name']}: {'lowest perplexity' if card['refined'] else 'random sample'}, for {card['model']}"
    yield f"texts    {kept['texts']:,} of {seen['texts']:,} kept{f'; dropped: {dropped}' if dropped else ''}"
    yield f"tokens   {kept['tokens']:,} of {seen['tokens']:,}"
    yield f"index    {index['contexts']:,} contexts up to {index['order']} long, {index['successors']:,} successors"
    yield f"size     {card['bytes']:,} bytes in {len(card['files'])} files"
    for place in card["corpus"]:
        yield f"corpus   {place['name']}, {_identity(place)}"
    yield f"prompts  {card['sources']:,} source prompts are listed as hashes"
    yield f"licence  {card['licence']}"
    yield f"built by {card['command']}"
    yield f"sha256   {card['sha256']}"
    if card["refined"]:
        yield f"perplexity, cut off at {card['perplexity']['cutoff']:.2f} (# kept, . scored)"
        yield from _histogram(card["perplexity"])


def _identity(place: Mapping[str, Any]) -> str:
    if "revision" in place:
        return f"revision {place['revision']}"
    return f"{place['bytes']:,} bytes, sha256 {place['sha256'][:16]}"


def _histogram(perplexity: Mapping[str, Any]) -> Iterator[str]:
    """A bar for each bin that is not empty."""
    scored, kept, edges = perplexity["scored"], perplexity["kept"], perplexity["edges"]
    unit = max(1, max(scored, default=1)) / BAR
    for low, all_texts, some in zip(edges, scored, kept, strict=False):
        if all_texts:
            full = max(1, round(all_texts / unit))
            dark = min(full, max(bool(some), round(some / unit)))
            yield f"{low:10.1f}  {'#' * dark}{'.' * (full - dark)} {some:,} of {all_texts:,}"
