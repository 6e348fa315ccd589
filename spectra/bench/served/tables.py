"""Tables over the rows of `serve`: throughput, waiting times, and how much of what was guessed came true."""

import statistics
from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]
PLAIN, NGRAM = "plain", "ngram"
HEADER = (
    "| clients | method | tokens/s | of plain | of ngram | first token, ms (median, 99th) "
    "| a token, ms (median, 99th) | guesses a draft | accepted | tokens a drafted step | identical |"
)


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
            drafts, drafted, accepted = (sum(row[name] for row in some) for name in ("drafts", "drafted", "accepted"))
            same = sum(alone.get(request["id"]) == request["text"] for request in some[0]["requests"])
            cells = [
                str(count), method, f"{rate(some):.1f}", _ratio(rate(some), plain), _ratio(rate(some), ngram),
                firsts, others, f"{drafted / drafts:.1f}" if drafts else "",
                f"{accepted / drafted:.0%}" if drafted else "", f"{1 + accepted / drafts:.2f}" if drafts else "",
                f"{same} of {len(some[0]['requests'])}",
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
