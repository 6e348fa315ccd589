"""What it costs to have a model write the text of a datastore, in one sentence. No measuring."""

from spectra.settings import TextOrder

TOKEN_BYTES = 16
"""Of a store, for a token of its text: more than the cards of the stores that come along say."""
STORE_BYTES = 6_000
"""Of the smallest store."""


def writing_cost(order: TextOrder, tokens_per_second: float, turn_seconds: float, already: int = 0) -> str:
    """tokens_per_second: of plain decoding, 0 where nothing is measured. turn_seconds: after which the writing ends.
    already: texts that are written.
    """
    missing = max(0, order.texts - already)
    tokens = missing * order.max_new_tokens
    size = kilobytes(STORE_BYTES + TOKEN_BYTES * max(order.texts, already) * order.max_new_tokens)
    if not tokens:
        return f"{already} texts are written already: only the store is built, {size} at most."
    if tokens_per_second > 0:
        speed = f"{tokens_per_second:,.0f}" if tokens_per_second >= 100 else f"{tokens_per_second:.3g}"
        time = f"about {duration(tokens / tokens_per_second)} at the {speed} tokens/s that plain decoding has here"
    else:
        time = "how long it takes is not measured yet: the first text will tell"
    said = f"It writes {tokens:,} tokens at most; {time}. The store takes {size} at most."
    if tokens > tokens_per_second * turn_seconds:
        said += (
            f" A turn ends after {duration(turn_seconds)}, and a store is built from the texts that are finished; "
            "start again to go on."
        )
    return f"{said} {already} texts are written already and stay." if already else said


def duration(seconds: float) -> str:
    """Rounded, in words."""
    if seconds < 1.5:
        return "a second"
    if seconds < 90:
        return f"{round(seconds)} seconds"
    if seconds < 5400:
        return f"{round(seconds / 60)} minutes"
    return f"{seconds / 3600:.1f} hours"


def kilobytes(size: float) -> str:
    """A size in bytes, in words."""
    return f"{size / 1000:.0f} kB" if size < 1e6 else f"{size / 1e6:.1f} MB"
