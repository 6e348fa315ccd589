"""Tree rows, partial figures, palette, and that the page loads no model library."""

import random
import subprocess
import sys
from dataclasses import replace

from asking import asked
from fakes_engine import FakeEngine
from sources import KNOWN_SOURCES

from spectra.guess import Guess, Source
from spectra.trace import TreeTrace
from spectra.tree import TokenTree
from visual import palette
from visual.names import choices, grouped
from visual.page import build_page
from visual.wire.figures import figures, level_of, seconds_to
from visual.wire.tree_rows import rows


def grown(seed: int) -> tuple[TreeTrace, list[int]]:
    dice = random.Random(seed)
    tree = TokenTree(0)
    for _ in range(dice.randrange(1, 9)):
        tree.insert(Guess(tuple(dice.randrange(4) for _ in range(dice.randrange(1, 6))), dice.choice(KNOWN_SOURCES)))
    for _ in range(3):
        tree.add(dice.randrange(len(tree)), 9, Source.POOL, eligible=False)
    node = dice.choice([i for i in range(len(tree)) if all(tree.eligible[j] for j in tree.path(i))])
    return TreeTrace.of(tree), tree.path(node)


def test_no_two_nodes_share_a_place_and_the_path_is_on_top() -> None:
    for seed in range(60):
        tree, path = grown(seed)
        row = rows(tree, path)
        depth = [0] * len(tree)
        for node in range(1, len(tree)):
            depth[node] = depth[tree.parents[node]] + 1
        assert len({*zip(row, depth, strict=True)}) == len(tree)
        assert [row[node] for node in path] == [0] * len(path)
        last = path[-1] if path else 0
        assert all(row[node] > 0 for node, parent in enumerate(tree.parents) if parent == last)


def test_figures_of_a_stopped_race_compare_equal_lengths() -> None:
    engine = FakeEngine(step_seconds=0)
    plain, method = (engine.answer(asked("x", name, max_new_tokens=64)) for name in ("autoregressive", "spectra"))
    list(plain), list(method)
    del method.trace.steps[5:]
    reached = len(method.trace.tokens)
    shown = figures(plain.trace, method.trace)
    assert not shown["whole"] and shown["same"] == reached and shown["differs"] is None
    expected = seconds_to(plain.trace.steps, reached) / seconds_to(method.trace.steps, reached)
    assert abs(shown["speedup"] - expected) < 1e-9


def test_both_answers_are_level_at_the_shorter_ones_end() -> None:
    engine = FakeEngine(step_seconds=0)
    plain, method = (engine.answer(asked("x", name, max_new_tokens=64)) for name in ("autoregressive", "spectra"))
    list(plain), list(method)
    steps = method.trace.steps
    assert level_of(plain.trace.steps[:1], steps) == (1, 0.18 + 0.024, 0.18 + 0.031 / len(steps[0].tokens))
    level = level_of(plain.trace.steps, steps)
    assert level.tokens == 64 and figures(plain.trace, method.trace)["level"] == level._asdict()
    assert abs(level.method - (0.18 + 0.031 * len(steps))) < 1e-9 and abs(level.plain - (0.18 + 0.024 * 64)) < 1e-9


def test_figures_find_the_first_differing_token() -> None:
    engine = FakeEngine(step_seconds=0)
    a, b = (engine.answer(asked("x", "spectra", max_new_tokens=30)) for _ in range(2))
    list(a), list(b)
    b.trace.steps[-1] = replace(b.trace.steps[-1], tokens=(-1,))
    before = sum(len(step.tokens) for step in b.trace.steps[:-1])
    assert figures(a.trace, b.trace)["differs"] == before


def test_a_method_that_draws_its_own_text_is_not_held_to_plain_decodings() -> None:
    engine = FakeEngine(step_seconds=0)
    a, b = (engine.answer(asked("x", "spectra", max_new_tokens=30, temperature=1)) for _ in range(2))
    list(a), list(b)
    assert not figures(a.trace, b.trace)["drawn"]
    b.trace.settings["drawn"] = True
    assert figures(a.trace, b.trace)["drawn"]


def test_nothing_decoded_gives_no_comparison() -> None:
    assert figures(None, None) == {"plain": None, "method": None}


def test_every_source_has_a_look_of_its_own() -> None:
    assert set(palette.LOOKS) == set(KNOWN_SOURCES)
    guesses = [look for source, look in palette.LOOKS.items() if source is not Source.MODEL]
    for part in ("name", "light", "dark", "underline", "dash", "hatch"):
        same = 2 * (part == "hatch")  # plotly has too few: draft models share one, stores another
        assert len({getattr(look, part) for look in guesses}) == len(guesses) - same, part
    assert all(f".source-{source}{{" in palette.css() for source in KNOWN_SOURCES)
    ngram = palette.LOOKS[Source.NGRAM]
    assert "text" not in ngram.name and "window" in ngram.meaning, "those of Lookahead never stood in the text"


def test_a_source_that_nobody_knows_has_a_look() -> None:
    assert palette.look_of(Source("my-own")).name == "My own"
    assert palette.css().startswith(":root{--c:")


def test_the_race_is_the_only_public_endpoint() -> None:
    page = build_page(FakeEngine())
    assert list(page.get_api_info()["named_endpoints"]) == ["/compare"]
    assert page.get_api_info()["unnamed_endpoints"] == {}
    runs = [fn for fn in page.fns.values() if fn.concurrency_id == "gpu"]
    assert len(runs) >= 3 and all(fn.concurrency_limit is None for fn in runs)


def test_presets_have_short_names_in_groups() -> None:
    named = choices(["autoregressive", "lookahead", "spectra-paper-core", "spectra", "spectra-paper-x-y"])
    assert named == [
        ("SPECTRA", "spectra"),
        ("Paper: CORE", "spectra-paper-core"),
        ("Paper: x y", "spectra-paper-x-y"),
        ("Baseline: Lookahead", "lookahead"),
        ("Plain decoding", "autoregressive"),
    ]


def test_presets_stand_under_the_heading_of_their_group() -> None:
    assert grouped(["autoregressive", "lookahead", "spectra-paper-core", "spectra-no-text"]) == [
        ("SPECTRA", [("no text", "spectra-no-text")]),
        ("As in the paper", [("CORE", "spectra-paper-core")]),
        ("Other methods", [("Lookahead", "lookahead")]),
    ]
    assert grouped(["autoregressive"]) == []


def test_the_page_loads_no_model_library() -> None:
    code = "import sys, visual.page; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
