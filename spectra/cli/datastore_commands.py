"""What the datastore commands do. Each is a dataclass: the fields are its arguments, `run` gives the exit code."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectra.cli.arguments import Network
from spectra.datastore.build.corpus import Corpus
from spectra.datastore.build.finish import restore
from spectra.datastore.build.hub import RECIPES
from spectra.datastore.build.settings import KEEP, BuildSettings
from spectra.datastore.build.workdir import check_place_at_once
from spectra.datastore.card import check_tokenizer, read_card
from spectra.datastore.examine import describe_card, measure, problems, tokenizer_problems
from spectra.datastore.language import Language, query
from spectra.datastore.sources import list_sha256, read_hashes
from spectra.datastore.store import Store
from spectra.errors import SpectraError
from spectra.io.progress import bar
from spectra.settings import check_number, check_unicode
from spectra.target.choices import check_choice
from spectra.target.notices import quiet_transformers

if TYPE_CHECKING:
    from spectra.datastore.build.build import Order


@dataclass(frozen=True, slots=True)
class Reading:
    """How a corpus is read and who scores it."""

    network: Network
    exclude: Path | None = None
    force: bool = False

    def order(
        self, places: Sequence[str], out: Path, settings: BuildSettings, licence: str, command: str, base: Path | None
    ) -> "Order":
        """base: a store whose texts are merged in."""
        exclude = read_hashes(self.exclude) if self.exclude else frozenset()
        corpus = Corpus(places, settings.where, settings.skip_bad, exclude)
        check_place_at_once(out, base, force=self.force)
        from spectra.datastore.build.build import Order  # with torch, which takes seconds

        return Order(
            corpus,
            out,
            settings,
            model=self.network.model,
            device=self.network.device,
            dtype=self.network.dtype,
            loading={"weights": self.network.weights, **self.network.placement.arguments()},
            licence=licence or "not stated",
            command=command,
            base=base,
            force=self.force,
        )


@dataclass(frozen=True, slots=True)
class NewStore:
    """What `build` and `recipe` have in common."""

    out: Path
    settings: BuildSettings
    reading: Reading
    command_line: str
    licence: str = "not stated"
    random_sample_like: Path | None = None

    def __post_init__(self) -> None:
        if self.settings.score_tokens is not None and not self.settings.refine:
            raise SpectraError("score-tokens", "a random sample is not scored; leave it or --no-refine out")

    def build(self, places: Sequence[str]) -> int:
        if self.random_sample_like is not None:
            return _build(self.random_sample(places, self.random_sample_like))
        settings = self.settings
        if settings.keep is None and settings.keep_tokens is None:
            settings = replace(settings, keep=KEEP)
        return _build(self.reading.order(places, self.out, settings, self.licence, self.command_line, base=None))

    def random_sample(self, places: Sequence[str], like: Path) -> "Order":
        """As many tokens of the same corpus as that store keeps, by its settings, but unrefined."""
        try:
            card = read_card(like)
        except SpectraError as error:
            raise SpectraError("random_sample_like", error.problem) from error
        same = {"refine": False, "keep": None, "keep_tokens": card["kept"]["tokens"], "score_tokens": None}
        settings = BuildSettings.from_dict({**card["settings"], **same, "seed": self.settings.seed})
        self.check_same(settings, like)
        order = self.reading.order(places, self.out, settings, self.licence, self.command_line, base=None)
        if order.corpus.facts() != card["corpus"] or list_sha256(order.corpus.exclude) != card["exclude"]:
            raise SpectraError("corpus", f"it is not what {like} was made of; give the same files")
        return order

    def check_same(self, settings: BuildSettings, like: Path) -> None:
        """Raise SpectraError for an option that would be passed over: these settings go for the sample."""
        usual = BuildSettings(keep=None)
        for one in fields(BuildSettings):
            given = getattr(self.settings, one.name)
            if given not in (getattr(usual, one.name), getattr(settings, one.name)):
                name = one.name.replace("_", "-")
                raise SpectraError(name, f"a random sample is made by the settings of {like}; leave it out")


@dataclass(frozen=True, slots=True)
class Build:
    """A store of the files that are named."""

    corpus: list[str]
    store: NewStore

    def run(self) -> int:
        return self.store.build(self.corpus)


@dataclass(frozen=True, slots=True)
class Recipe:
    """A store of a corpus that is known by name."""

    name: str
    store: NewStore

    def __post_init__(self) -> None:
        check_choice("name", self.name, tuple(sorted(RECIPES)))

    def run(self) -> int:
        return self.store.build([RECIPES[self.name].place])


@dataclass(frozen=True, slots=True)
class Add:
    """A store with the texts of another one and of more files."""

    store: Path
    corpus: list[str]
    reading: Reading
    command_line: str
    out: Path | None = None
    in_place: bool = False
    licence: str | None = None
    keep: int | None = None
    keep_tokens: int | None = None
    score_tokens: int | None = None
    where: dict[str, tuple[str, ...]] = field(default_factory=dict)
    skip_bad: bool = False

    def run(self) -> int:
        if self.in_place:
            restore(self.store)
        card = read_card(self.store)
        settings = self.settings(card["settings"])
        licence = card["licence"] if self.licence is None else self.licence
        out = self.out or self.store
        return _build(self.reading.order(self.corpus, out, settings, licence, self.command_line, base=self.store))

    def settings(self, old: dict[str, Any]) -> BuildSettings:
        """The store's own, but for sizes that were given; `where` and `skip_bad` are of the new text."""
        settings = replace(BuildSettings.from_dict(old), where=self.where, skip_bad=self.skip_bad)
        if self.keep is not None or self.keep_tokens is not None:
            settings = replace(settings, keep=self.keep, keep_tokens=self.keep_tokens)
        if self.score_tokens is not None:
            settings = replace(settings, score_tokens=self.score_tokens)
        return settings


def _build(order: "Order") -> int:
    from spectra.datastore.build.build import build

    quiet_transformers()
    card = build(order)
    if card:
        print(f"{order.out}: {card['kept']['texts']:,} of {card['seen']['texts']:,} texts, {card['bytes']:,} bytes")
    return 0


@dataclass(frozen=True, slots=True)
class Inspect:
    """What a store's card says, in words or as JSON."""

    store: Path
    json: bool = False

    def run(self) -> int:
        card = read_card(self.store)
        print(json.dumps(card, indent=1) if self.json else "\n".join(describe_card(card)))
        return 0


@dataclass(frozen=True, slots=True)
class Query:
    """What a store knows to follow a text."""

    store: Path
    text: str
    top: int = 8
    model: str | None = None

    def run(self) -> int:
        check_number("top", self.top, 1, 64, whole=True)
        check_unicode("text", self.text)
        if not self.text:
            raise SpectraError("text", "it is empty; give what comes before")
        store = Store.open(self.store)
        language = _load_language(self.model)
        check_tokenizer(store.card, language.sha256, language.model)
        found = query(store, language, self.text, self.top)
        for one in found:
            node = one.node
            print(f"{node.chance:.2f}  {node.times}/{node.seen} after {node.match} tokens  {one.text!r}")
        if not found:
            print(f"{store.card['name']} knows nothing that follows this text", file=sys.stderr)
        return 0


@dataclass(frozen=True, slots=True)
class Verify:
    """Without a model, a store of the embedded one is checked against that."""

    store: Path
    model: str | None = None

    def run(self) -> int:
        from spectra.target.embedded import NAME

        if not self.store.is_dir():
            read_card(self.store)  # says so
        wrong = problems(self.store)
        if not wrong and (self.model is not None or read_card(self.store)["model"] == NAME):
            wrong = tokenizer_problems(self.store, _load_language(self.model))
        if wrong:
            print("\n".join(wrong), file=sys.stderr)
            return 1
        print(f"{self.store} is whole")
        return 0


@dataclass(frozen=True, slots=True)
class Speed:
    """How long a lookup takes."""

    store: Path
    queries: int = 5000

    def run(self) -> int:
        for line in measure(self.store, self.queries).lines():
            print(line)
        return 0


@dataclass(frozen=True, slots=True)
class SelfText:
    """A corpus that the model writes itself."""

    out: Path
    network: Network
    prompts: Path | None = None
    max_new_tokens: int = 256
    temperatures: tuple[float, ...] = (0.0, 0.7)
    batch: int = 8
    seed: int = 0

    def run(self) -> int:
        from spectra.datastore.build.selftext import (
            Writing,
            check_out,
            held,
            own_questions,
            read_questions,
            write_answers,
        )

        writing = Writing(self.max_new_tokens, self.temperatures, self.batch, self.seed)
        temperatures = writing.temperatures
        questions = read_questions(self.prompts, temperatures) if self.prompts else own_questions(temperatures)
        check_out(self.out)
        from spectra.datastore.build.stock_answers import by_generate, check_fits  # with torch, which takes seconds

        quiet_transformers()
        model, tokenizer, name = self.network.load()
        if not tokenizer.chat_template:
            raise SpectraError("model", f"{name} has no chat template, so it cannot answer; name one that has")
        check_fits(model, tokenizer, questions, writing.max_new_tokens)
        with held(self.out), bar("answering", len(questions), " prompts") as shown:
            answering = by_generate(model.eval(), tokenizer, writing.max_new_tokens)
            facts = {"model": name, "seed": writing.seed, "max_new_tokens": writing.max_new_tokens}
            write_answers(answering, questions, self.out, writing, shown.update, facts)
        return 0


def _load_language(model: str | None) -> Language:
    from spectra.target.load import load_tokenizer

    quiet_transformers()
    return Language(*load_tokenizer(model))
