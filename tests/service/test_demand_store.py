"""REST, its union with Lookahead and the ablation without perplexity: their datastore is built when first asked for."""

import json
import tempfile
from pathlib import Path

import pytest
from asking import asked
from stores import rows, write_rows
from tiny import make
from words import tokenizer

from spectra.datastore.build.library import library_texts, write_library
from spectra.errors import SpectraError
from spectra.guess import Source
from spectra.methods.resources import Resources
from spectra.service.demand_store import NAME, DemandStore
from spectra.service.engine import Engine
from spectra.settings import MethodSettings

NEED = ("rest", "lookahead-rest", "spectra-paper-retrieval-no-ppl")


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    place = tmp_path_factory.mktemp("models") / "tiny"
    make("llama", max_position_embeddings=400).save_pretrained(place)
    tokenizer().save_pretrained(place)
    engine = Engine.load(str(place))
    engine._demand_store = DemandStore(30, words_only)
    return engine


def words_only(file, texts, **_):
    """A corpus that the tiny model's tokenizer can read."""
    return write_rows(file, rows(texts))


def answered(engine, method):
    answer = engine.answer(asked("w5 w6 w7 w5 w6 w7", method, max_new_tokens=24))
    for _ in answer:
        pass
    return answer.trace


def test_they_are_offered_and_build_what_they_lack_once(engine):
    assert set(NEED) <= set(engine.methods) and next(iter(engine.methods)) == "autoregressive"
    assert set(engine.settings["spectra-paper-retrieval-no-ppl"]) == {"order", "guesses", "nodes"}
    assert "spectra-retrieval" not in engine.methods  # no refined store fits this model
    reports = []
    with pytest.raises(SpectraError, match="datastore"):
        answered(engine, "rest")
    engine.ready(asked("w5", "spectra-core"), lambda *progress: reports.append(progress))
    assert not reports and not engine.stores()
    plain = answered(engine, "autoregressive")
    for method in NEED:
        engine.ready(asked("w5", method), lambda *progress: reports.append(progress))
        trace = answered(engine, method)
        assert trace.tokens == plain.tokens and trace.method == method
        assert bool(reports) == (method == NEED[0])
        assert not reports or reports[0] == ("collecting its texts", 0, 0)
        reports.clear()
    (card,) = engine.stores()
    assert card["name"] == NAME and not card["refined"] and card["licence"].startswith("PSF-2.0")
    folder = engine.resources.stores[0].folder
    assert folder.exists() and Source.RETRIEVAL not in answered(engine, "spectra-core").sources
    engine._adopt(engine.target, Resources())
    assert not folder.exists() and not engine.stores() and set(NEED) <= set(engine.methods)


def test_a_build_that_is_stopped_leaves_nothing(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    engine._adopt(engine.target, Resources())

    def stop(what, *_):
        if what == "reading":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.ready(asked("w5", "rest"), stop)
    assert not list(tmp_path.iterdir()) and not engine.stores()


def test_a_full_disk_is_told_without_a_place_on_it(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    engine._adopt(engine.target, Resources())

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(SpectraError) as error:
        engine.ready(asked("w5", "rest"), lambda *_: None)
    disk = "(No space left on device); free some space or make it writable"
    assert str(error.value) == f"method: cannot write {NAME} {disk}" and not list(tmp_path.iterdir())


def test_a_disk_that_is_full_before_the_build_is_told(engine, tmp_path, monkeypatch):
    """It was an error without a reason, and a traceback in the server's log."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    engine._adopt(engine.target, Resources())

    def full(*_):
        raise OSError(28, "No space left on device", str(tmp_path))

    monkeypatch.setattr(engine._demand_store, "write", full)
    with pytest.raises(SpectraError) as error:
        engine.ready(asked("w5", "rest"), lambda *_: None)
    assert str(error.value) == (
        "method: the server's disk refused its files (No space left on device); try again later"
    )
    assert not list(tmp_path.iterdir())


def test_the_library_is_documented_code_drawn_by_a_seed(tmp_path):
    filler = "    x = x + 1\n" * 30
    (tmp_path / "one.py").write_text("def f(x):\n    'Says it.'\n" + filler + "    return x\n")
    (tmp_path / "two.py").write_text("def silent(x):\n" + filler)
    (tmp_path / "broken.py").write_text("def (:\n")
    assert [text.splitlines()[0] for text in library_texts(sorted(tmp_path.glob("*.py")))] == ["def f(x):"]
    file, again, other = (write_library(tmp_path / f"{i}.jsonl", 40, seed=seed) for i, seed in enumerate((0, 0, 1)))
    texts = [json.loads(line)["text"] for line in file.read_text().splitlines()]
    assert len(set(texts)) == 40 and all(text.startswith(("def ", "class ", "@")) for text in texts)
    assert file.read_text() == again.read_text() != other.read_text()


def test_a_visitors_store_of_the_library_keeps_half(engine, monkeypatch):
    monkeypatch.setattr("spectra.service.visitor_stores.LIBRARY_TEXTS", 12)
    monkeypatch.setattr("spectra.service.visitor_stores.write_library", words_only)
    card = engine.build_store("visitor", None, 1000, lambda *_: None)
    assert card["name"] == "python-library" and card["refined"] and card["kept"]["texts"] <= 6 < card["seen"]["texts"]
    assert not list(Path(tempfile.gettempdir()).glob("python-library*"))
    shown = card["perplexity"]
    assert sum(shown["kept"]) == card["kept"]["texts"] < sum(shown["scored"])
    above = [low > shown["cutoff"] for low in shown["edges"][:-1]]
    assert any(n for n, far in zip(shown["scored"], above, strict=True) if far)
    assert not any(n for n, far in zip(shown["kept"], above, strict=True) if far)
    engine.drop_store("visitor")


def test_a_method_that_cannot_be_made_is_refused_before_anything_is_decoded(engine):
    """Plain decoding ran to its end first, and the error named an option of the command line."""
    engine._adopt(engine.target, Resources())
    settings = MethodSettings(retrieval=True)
    with pytest.raises(SpectraError, match="build one in the Datastore tab, or switch retrieval off") as error:
        engine.ready(asked("w5", "spectra-paper-core", settings=settings), lambda *_: None)
    assert error.value.field == "retrieval"
    for wrong in (asked("w5", "spectra-retrieval"), asked("w5", "spectra-draft")):
        with pytest.raises(SpectraError):
            engine.ready(wrong, lambda *_: None)
    engine.ready(asked("w5", "spectra-paper-core"), lambda *_: None)


def test_settings_are_those_that_run_with_a_visitors_own_store(engine, monkeypatch):
    """The page's panel said that there was no retrieval, and could not switch it off."""
    monkeypatch.setattr("spectra.service.visitor_stores.LIBRARY_TEXTS", 12)
    monkeypatch.setattr("spectra.service.visitor_stores.write_library", words_only)
    engine._adopt(engine.target, Resources())
    engine.build_store("visitor", None, 1000, lambda *_: None)
    for visitor, retrieval in (("visitor", True), ("other", False)):
        shown = engine.settings_of("spectra", visitor)
        assert shown["retrieval"] == retrieval
        for changed in ({}, {"retrieval": False}):
            answer = engine.answer(
                asked("w5 w6 w7", "spectra", visitor=visitor, settings=MethodSettings(**changed), max_new_tokens=8)
            )
            ran = answer.trace.settings["method"]["values"]
            assert ran["retrieval"] == (retrieval and not changed) and (changed or ran == shown)
            answer.close()
    assert engine.settings_of("rest", "visitor") == engine.settings["rest"]
    assert engine.settings_of("none", "visitor") == {}
    engine.drop_store("visitor")
    assert engine.settings_of("spectra", "visitor") == engine.settings["spectra"]
