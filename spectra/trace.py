"""What happened, step by step: all that the page, the charts and the benchmarks read. JSON round trip, no torch."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from spectra.errors import SpectraError
from spectra.guess import Source
from spectra.inside import Inside, count, flag, ints, number, text
from spectra.tree import ROOT, TokenTree

FORMAT = "spectra-trace"
VERSION = 1


@dataclass(frozen=True, slots=True)
class TreeTrace:
    """The tree one step scored. Columns, one entry a node; node 0 is the last committed token (parent -1).

    sources: every source that offered the node, the one with the credit first. probability: the estimated chance that
    the path down to the node is accepted, None where the method does not estimate. eligible: False for pool rows.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    sources: tuple[tuple[Source, ...], ...]
    eligible: tuple[bool, ...]
    probability: tuple[float | None, ...]

    @classmethod
    def of(cls, tree: TokenTree) -> "TreeTrace":
        return cls(
            tuple(tree.tokens),
            tuple(tree.parents),
            tuple(tree.sources),
            tuple(tree.eligible),
            tuple([None if p is None else round(p, 4) for p in tree.probability]),
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "TreeTrace":
        tree = cls(
            ints(data["tokens"]),
            ints(data["parents"]),
            tuple(tuple(Source(s) for s in row) for row in data["sources"]),
            tuple(flag(e) for e in data["eligible"]),
            tuple(None if p is None else number(p, 1.0) for p in data["probability"]),
        )
        columns = (tree.tokens, tree.parents, tree.sources, tree.eligible, tree.probability)
        if not tree.tokens or len({len(column) for column in columns}) > 1 or not all(tree.sources):
            raise ValueError("the columns of a tree differ in length")
        if any(not -1 <= parent < node or (parent < 0) != (node == 0) for node, parent in enumerate(tree.parents)):
            raise ValueError("a tree's parent comes after its child")
        return tree

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, slots=True)
class StepTrace:
    """One forward pass and what came of it.

    tokens / sources: what the step added to the output, in order, and who gets the credit for each.
    path: accepted nodes of `tree`, one for each guessed token in `tokens`. picks: the target's own token at each node
    of the walk, the root first. seconds: wall time of the whole step, the prefill of the first one excluded.
    prefill_seconds: only on the first step. parts: seconds by part (draft, forward, verify, keep; in a batch also wait,
    for what is done for the others).
    finish: why the answer ended here ("eos", "length", "criteria"), else "". held: n-grams that a source had learned
    before this step, for those that tell. offered: guessed tokens that the drafters had, those that the budget left out
    of the tree included (None in old files). inside: what dictionaries and datastores held and learned, if asked for.
    """

    index: int
    tokens: tuple[int, ...]
    sources: tuple[Source, ...]
    path: tuple[int, ...]
    picks: tuple[int, ...]
    tree: TreeTrace
    seconds: float
    prefill_seconds: float = 0.0
    parts: Mapping[str, float] = field(default_factory=dict)
    finish: str = ""
    held: Mapping[str, int] = field(default_factory=dict)
    offered: int | None = None
    inside: Inside | None = None

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, as JSON has them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "StepTrace":
        """Of `to_dict`. Raises ValueError, KeyError or TypeError for anything else."""
        tree = TreeTrace.from_dict(data["tree"])
        tokens, path = ints(data["tokens"]), ints(data["path"])
        if len(data["sources"]) != len(tokens) or not len(path) <= len(tokens) <= len(path) + 1:
            raise ValueError("the tokens of a step, their sources and its path differ in length")
        if not all(0 < node < len(tree) for node in path):
            raise ValueError("a step's path leaves its tree")
        step = cls(
            index=count(data["index"]),
            tokens=tokens,
            sources=tuple(Source(s) for s in data["sources"]),
            path=path,
            picks=ints(data["picks"]),
            tree=tree,
            seconds=number(data["seconds"]),
            prefill_seconds=number(data["prefill_seconds"]),
            parts={text(k): number(v) for k, v in data["parts"].items()},
            finish=text(data["finish"]),
            held={Source(k): count(v) for k, v in data.get("held", {}).items()},
            offered=None if data.get("offered") is None else count(data["offered"]),
            inside=None if data.get("inside") is None else Inside.from_dict(data["inside"]),
        )
        step.check()
        return step

    def check(self) -> None:
        """Raise ValueError where its tokens, their credit, the path and the tree tell different stories."""
        tree = self.tree
        if [tree.parents[node] for node in self.path] != [ROOT, *self.path][: len(self.path)]:
            raise ValueError("a step's path jumps in its tree")
        if not all(tree.eligible[node] for node in self.path):
            raise ValueError("a step accepted a node that was no guess")
        if self.tokens != self.picks[: len(self.tokens)]:
            raise ValueError("the tokens of a step are not those that the model picked")
        if any(tree.tokens[node] != token for node, token in zip(self.path, self.tokens, strict=False)):
            raise ValueError("the tokens of a step are not those of its path")
        credit = [tree.sources[node][0] for node in self.path] + [Source.MODEL]
        if list(self.sources) != credit[: len(self.sources)]:
            raise ValueError("the sources of a step are not those of its path")


@dataclass(slots=True)
class Trace:
    """One whole answer.

    settings: sampling, limits and numerics, as given. pieces: the output as text, each with the number of tokens it
    took (a token may hold part of a character). vocabulary: text of every token id that appears in a tree. kept: prompt
    tokens whose cache was there from an earlier turn.
    """

    method: str
    model: str
    prompt: str
    prompt_tokens: tuple[int, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    steps: list[StepTrace] = field(default_factory=list)
    pieces: list[tuple[int, str]] = field(default_factory=list)
    vocabulary: dict[int, str] = field(default_factory=dict)
    kept: int = 0

    @property
    def tokens(self) -> list[int]:
        """All output tokens."""
        return [token for step in self.steps for token in step.tokens]

    @property
    def sources(self) -> list[Source]:
        """Who gets the credit for each of `tokens`."""
        return [source for step in self.steps for source in step.sources]

    @property
    def text(self) -> str:
        """The output as far as its characters are whole."""
        return "".join(piece for _, piece in self.pieces)

    @property
    def finish(self) -> str:
        """Why the answer ended, "" before its end; see `StepTrace`."""
        return self.steps[-1].finish if self.steps else ""

    @property
    def changed(self) -> Mapping[str, Any]:
        """What of the method's settings was changed, as the trace has it."""
        return self._method("changed")

    @property
    def values(self) -> Mapping[str, Any]:
        """What the method's settings came to, as the trace has it."""
        return self._method("values")

    def _method(self, name: str) -> Mapping[str, Any]:
        method = self.settings.get("method")
        found = method.get(name) if isinstance(method, dict) else None
        return found if isinstance(found, dict) else {}

    def check(self) -> None:
        """Raise ValueError where steps are missing, in another order, or not those that the text is of."""
        if [step.index for step in self.steps] != list(range(len(self.steps))):
            raise ValueError("the steps do not follow one another")
        if any(step.finish for step in self.steps[:-1]):
            raise ValueError("the answer goes on after its end")
        if any(step.prefill_seconds for step in self.steps[1:]):
            raise ValueError("the prompt was read after the first step")
        texts, tokens = sum(size for size, _ in self.pieces), len(self.tokens)
        if texts > tokens or (self.finish and texts < tokens):
            raise ValueError(f"the text is of {texts} tokens, the steps have {tokens}")

    def to_dict(self) -> dict[str, Any]:
        """What `to_json` writes, with format and version."""
        return {"format": FORMAT, "version": VERSION, **asdict(self)}

    def to_json(self) -> str:
        """One line of JSON, which `from_json` reads."""
        return json.dumps(self.to_dict(), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_dict(cls, data: Any) -> "Trace":
        """Raises `SpectraError` naming what is wrong when `data` is not a trace of this version."""
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise SpectraError("trace", f'this is no trace; give a JSON object with "format": "{FORMAT}"')
        if data.get("version") != VERSION:
            raise SpectraError("trace", f"version {data.get('version')!r} is not {VERSION}; record it again")
        try:
            trace = cls(
                method=text(data["method"]),
                model=text(data["model"]),
                prompt=text(data["prompt"]),
                prompt_tokens=ints(data["prompt_tokens"]),
                settings=_facts(data["settings"]),
                environment=_facts(data["environment"]),
                steps=[StepTrace.from_dict(step) for step in data["steps"]],
                pieces=[(count(n), text(piece)) for n, piece in data["pieces"]],
                vocabulary={int(k): text(v) for k, v in data["vocabulary"].items()},
                kept=count(data.get("kept", 0)),
            )
            trace.check()
            return trace
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            said = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise SpectraError("trace", f"damaged ({said}); record it again") from error

    @classmethod
    def from_json(cls, file: str) -> "Trace":
        """Raises like `from_dict`. file: what it holds."""
        try:
            data = json.loads(file)
        except (ValueError, RecursionError) as error:  # the first also for a number of thousands of digits
            raise SpectraError("trace", f"not JSON ({error}); give a file written by --trace") from error
        return cls.from_dict(data)


def _facts(data: Any) -> dict[str, Any]:
    """Settings or facts by name: texts, finite numbers, yes and no, nothing, or lists and mappings of those."""
    written = json.dumps(data, allow_nan=False, ensure_ascii=False)
    written.encode()
    json.loads(written, parse_int=_short)
    return {text(name): value for name, value in data.items()}


def _short(digits: str) -> int:
    """A whole number of 64 bits, roughly: larger ones are none that a float holds."""
    if len(digits) > 20:
        raise ValueError(f"a number of {len(digits)} digits is no setting")
    return int(digits)
