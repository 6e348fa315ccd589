"""Tables of the docs that stand for the code have what the code has: presets, settings, rules, limits, defaults."""

import json
import re
from functools import cache

import pytest
from examples import PAGES, ROOT, name_of, text_of

from spectra.methods.baselines import BASELINES
from spectra.methods.draft_models import DRAFT_MODELS
from spectra.methods.paper import LITERAL
from spectra.methods.presets import METHODS, PLAIN
from spectra.methods.spectra import SPECTRA
from spectra.service import prefix_caches, visitor_file
from spectra.serving.check import ServingOptions
from spectra.settings import METHOD_NUMBERS, MethodSettings
from spectra.target.choices import STEPS, WEIGHTS
from visual import guard, request
from visual.run import race_file, run
from visual.tabs import chat

CODE = re.compile(r"`([^`]+)`")


def table(page, title):
    """The rows of the table whose first column has this title, as lists of cells."""
    found = re.search(rf"^\| {title} \|.*\n\|[-:|]+\|\n((?:\|.*\n)+)", text_of(ROOT / page), re.MULTILINE)
    assert found, f"{page} has no table of {title}"
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in found[1].splitlines()]


def named(cells):
    return [name for cell in cells for name in CODE.findall(cell)]


def test_every_preset_of_the_project_is_in_the_table_of_methods():
    """One of a reader's own is a line in METHODS alone (docs/drafter.md)."""
    own = [PLAIN, *SPECTRA, *LITERAL, *BASELINES, *DRAFT_MODELS]
    assert sorted(named(row[0] for row in table("docs/methods.md", "preset"))) == sorted(own)
    assert set(own) <= METHODS.keys()


def test_the_table_of_settings_has_every_field():
    switches = [name for name in MethodSettings.__dataclass_fields__ if name not in METHOD_NUMBERS]
    options = [*(f"--{name}" for name in METHOD_NUMBERS), *(f"--no-{name}" for name in switches)]
    assert sorted(named(row[1] for row in table("docs/methods.md", "setting"))) == sorted(options)


def test_the_table_of_rules_has_every_rule():
    """It named a file that was gone."""
    common = {"__init__.py", "draws.py", "protocol.py"}
    files = {path.name for path in (ROOT / "spectra/verify/rules").glob("*.py")} - common
    assert set(named(row[0] for row in table("docs/draft-models.md", "file"))) == files


def test_the_tables_of_weights_and_steps_have_every_choice():
    assert named(row[0] for row in table("docs/command-line.md", "`--weights`")) == list(WEIGHTS)
    assert {*named(row[0] for row in table("docs/gpu.md", "`step`")), "native"} == set(STEPS)


def test_the_flags_of_the_server_have_its_defaults():
    shown = {named(row[:1])[0]: row[2].replace(",", "") for row in table("docs/serving.md", "flag")}
    defaults = {name.replace("_", "-"): one.default for name, one in ServingOptions.__dataclass_fields__.items()}
    numbers = {f"--{name}": str(value) for name, value in defaults.items() if type(value) is int}
    assert {flag: value for flag, value in shown.items() if value.isdigit()} == numbers


def test_the_limits_are_those_of_the_page():
    limits, size = guard.RequestLimits(), lambda number: f"{number:,}"
    asked, answered = size(request.MAX_CHARACTERS), size(request.MAX_TOKENS)
    race = f"{race_file.MAX_BYTES // 10**6} MB and {size(race_file.MAX_VALUES)} values"
    corpus = f"{visitor_file.MAX_BYTES // 10**6} MB and {size(visitor_file.MAX_TOKENS)} tokens"
    held, all_held = f"{limits.held // 10**6} MB", f"{limits.all_held // 10**9} GB"
    within = (
        f"sent within {limits.patience:g} seconds; an upload, one file, within {limits.upload_patience / 60:g} minutes"
        f"; a link of {size(guard.LONGEST_LINK)} bytes"
    )
    expected = {
        "a prompt": f"{asked} characters",
        "an answer": f"{answered} new tokens",
        "one run": f"{run.MAX_SECONDS:g} seconds of decoding",
        "a conversation": f"{chat.MAX_TURNS} turns",
        "a race measured alone": f"{run.MAX_ALONE_SECONDS:g} seconds",
        "a run nobody listens to": f"stopped after {limits.grace:g} seconds",
        "starts": f"{limits.starts} a minute of one address, {guard.UNHEARD} of a visitor",
        "any other request that sends something": f"{limits.calls} a minute of one address",
        "uploads": f"{limits.uploads} a minute of one address, {race} a race file, {corpus} a corpus",
        "uploads on their way, or that nobody took": f"{held} of one address, {all_held} of all",
        "a visitor's name (`session_hash`)": f"{guard.LONGEST_NAME} letters, digits, `.`, `:`, `_` and `-`",
        "any other request": f"{limits.body // 10**6} MB and {size(limits.values)} values, {within}",
    }
    shown = dict(table("docs/security.md", "limit"))
    assert {name: shown[name][: len(text)] for name, text in expected.items()} == expected
    page = text_of(ROOT / "docs/page.md")
    kept = f"last {prefix_caches.MAX_VISITORS} conversations are kept, {prefix_caches.MAX_BYTES >> 30} GB at most"
    assert kept in " ".join(page.split())


def test_the_figures_of_the_draft_models_are_those_of_their_cards():
    text = " ".join(text_of(ROOT / "docs/draft-models.md").split())
    names = ("spectra-nano", "spectra-nano-boost")
    first, second = (json.loads(text_of(ROOT / f"assets/models/{name}/card.json")) for name in names)
    own, boost = first["held_back"], second["held_back"]
    among = [own[f"top{count}"] for count in range(2, 6)]
    assert f"On {own['tokens']:,} tokens of answers to held-back prompts" in text
    for row in (
        f"likeliest token is the draft's likeliest | {own['top1']:.3f} |",
        f"2, 3, 4, 5 likeliest | {', '.join(f'{share:.3f}' for share in among)} |",
        f"a draw is accepted | {own['overlap']:.3f} |",
        f"nats a token (the target: {own['target_loss']:.3f}) | {own['loss']:.3f} |",
        f"{first['trained']['batches_own']:,} batches of at most {first['settings']['batch']:,}",
        f"{first['trained']['batches_general']} batches of them",
        f"likeliest tokens at {first['trained']['teacher_tokens']:,} answer tokens",
        f"alone {boost['top1']} top-1, {boost['overlap']} sum min(p, q), {boost['loss']} nats",
        f"one of the two models at {boost['any_top1']} of {boost['tokens']:,} positions",
        f"after {second['settings']['steps']} steps",
    ):
        assert row in text, row


GONE = {"kernels.py", "fused.py", "packed.py", "matrix.py"}
"""What docs/numerics.md and the figures tell to have been replaced."""
FILE = re.compile(r"`(?:[\w./-]*/)?(\w[\w-]*\.(?:py|js|css|cpp|h))`")


PLACES = (".", "assets", "docs", "spectra", "tests", "visual")


@cache
def files():
    """Their names, what is installed left out."""
    found = [path for top in PLACES for path in (ROOT / top).glob("*.*" if top == "." else "**/*.*")]
    return {path.name for path in found if "node_modules" not in path.parts}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_file_of_code_that_is_named_is_there(page):
    """Wherever in the repository, for a sentence may leave out its folder."""
    assert set(FILE.findall(text_of(page))) - GONE - files() == set()
