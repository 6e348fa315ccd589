"""A visitor's own datastore: built from a file within bounds, guessed from, and gone with the visitor."""

import json
import tempfile

import pytest
from asking import asked
from stores import rows, write_rows
from tiny import make
from words import letters

from spectra.datastore.language import Language
from spectra.errors import SpectraError
from spectra.guess import Source
from spectra.service.engine import Engine
from spectra.service.visitor_stores import VisitorStores
from spectra.service.visitor_texts import VisitorTexts
from spectra.settings import TextOrder

PROMPT = "w5 w6 w7 w5 w6 w7"


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Where the stores go."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def write(file, text):
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def some(folder, count=12, seed=0):
    folder.mkdir(exist_ok=True)
    return write_rows(folder / "notes.jsonl", rows(count, seed))


def left(temporary):
    return [path.name for path in temporary.iterdir() if path.name.startswith("spectra-store-")]


def test_a_file_becomes_a_store_of_its_visitor_alone(engine, temporary):
    heard = []
    file = some(temporary / "up")
    card = engine.build_store("a", file, 5, lambda *news: heard.append(news))
    assert (card["name"], card["kept"]["texts"], card["refined"]) == ("my-notes", 5, True)
    assert card["perplexity"]["cutoff"] > 1 and sum(card["perplexity"]["scored"]) >= 12
    assert {what for what, _, _ in heard} == {"reading", "scoring", "opening"}
    last = [news for news in heard if news[0] == "scoring"][-1]
    assert last[1] == last[2] > 0
    assert [store["name"] for store in engine.stores("a")] == ["my-notes"] and engine.stores("b") == []
    text = json.loads(file.read_text().splitlines()[0])["assistant"]
    assert engine.query("my-notes", " ".join(text.split()[:6]), visitor="a") is not None
    with pytest.raises(SpectraError, match="store: "):
        engine.query("my-notes", text, visitor="b")
    assert str(temporary) not in json.dumps({k: v for k, v in card.items() if k != "settings"})
    engine.forget("a")
    assert engine.stores("a") == [] and left(temporary) == []


def test_answers_of_the_visitor_are_guessed_from_it_and_stay_the_same(engine, temporary):
    def tokens(trace_of):
        for _ in trace_of:
            pass
        return trace_of.trace

    plain = tokens(engine.answer(asked(PROMPT, "autoregressive", max_new_tokens=60)))
    own = " ".join(f"w{token}" for token in plain.tokens)  # what the model will say, word for word
    engine.build_store("a", write(temporary / "up" / "own.txt", own + "\n"), 9, lambda *_: None)
    others = tokens(engine.answer(asked(PROMPT, "spectra", max_new_tokens=60, visitor="b")))
    mine = tokens(engine.answer(asked(PROMPT, "spectra", max_new_tokens=60, visitor="a")))
    assert mine.tokens == plain.tokens and mine.method == "spectra"
    assert Source.RETRIEVAL in mine.sources and Source.RETRIEVAL not in others.sources
    assert len(mine.steps) < len(others.steps)
    talk = [{"role": "user", "content": PROMPT}]
    chatted = tokens(engine.answer(asked(talk, "spectra", max_new_tokens=60, visitor="a")))
    assert Source.RETRIEVAL in chatted.sources
    engine.drop_store("a")
    assert (
        Source.RETRIEVAL not in tokens(engine.answer(asked(PROMPT, "spectra", max_new_tokens=60, visitor="a"))).sources
    )


BAD = {
    "empty": ("a.txt", "", "it is empty"),
    "blank": ("a.txt", " \n\n\t", "it is empty"),
    "binary": ("a.txt", bytes(range(256)) * 9, "not text in UTF-8"),
    "zeros": ("a.txt", b"words \0 words " * 90, "bytes that no text has"),
    "one line": ("a.txt", "w5 w6 w7 w8", "its longest text has 4 tokens; give texts of 16"),
    "another kind": ("a.pdf", "w5 " * 90, ".pdf is not read here; give .txt or .jsonl"),
    "no ending": ("notes", "w5 " * 90, "a file without an ending"),
    "markup": ("<b>a.jsonl", "<script>alert(1)</script>\n<p>" * 9, "one JSON object a line"),
    "no rows": ("a.jsonl", "[1]\n{}\n", "one JSON object a line"),
    "a loop": ("a.txt", "w5 w6 " * 90, "no text of it is left"),
    "too large": ("a.txt", "w" * 2_000_001, "2.0 MB; give at most 2 MB"),
    "too long": ("a.txt", "w5 " * 50_001, "50,001 tokens; give at most 50,000"),
    "too many": ("a.txt", "w5\n\n" * 60_000, "51,000 tokens and more; give at most 50,000"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_one_line_at_the_field_and_the_last_store_stays(name, engine, temporary):
    title, text, words = BAD[name]
    engine.build_store("a", some(temporary / "up"), 9, lambda *_: None)
    with pytest.raises(SpectraError) as error:
        engine.build_store("a", write(temporary / "bad" / title, text), 9, lambda *_: None)
    assert error.value.field == "file" and words in str(error.value)
    assert "\n" not in str(error.value) and str(temporary) not in str(error.value)
    assert len(engine.stores("a")) == 1 and len(left(temporary)) == 1
    engine.forget("a")


def test_of_hundreds_of_thousands_of_texts_no_more_than_it_takes_are_made_tokens(engine, temporary, monkeypatch):
    """All at once, the 600,000 of 2 MB took eleven seconds of a core, and the server stood still."""
    sizes = []
    encode = Language.encode
    monkeypatch.setattr(Language, "encode", lambda self, texts: (sizes.append(len(texts)), encode(self, texts))[1])
    with pytest.raises(SpectraError, match="tokens and more"):
        engine.build_store("a", write(temporary / "bad.txt", "a\n\n" * 100_000), 9, lambda *_: None)
    assert max(sizes) <= 1000 and sum(sizes) < 60_000 and left(temporary) == []


def test_a_build_that_is_stopped_leaves_nothing(engine, temporary):
    def stop(what, done, total):
        if what == "scoring":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.build_store("a", some(temporary / "up"), 9, stop)
    assert engine.stores("a") == [] and left(temporary) == []
    engine.build_store("a", some(temporary / "up"), 9, lambda *_: None)  # and the model is free again
    engine.forget("a")


def full(*_, **__):
    raise OSError(28, "No space left on device", "/home/someone/secret")


TOLD = "the server's disk refused its files (No space left on device); try again later"


@pytest.mark.parametrize("place", ["tempfile.TemporaryDirectory", "shutil.copyfile"])
def test_a_disk_that_is_full_before_the_build_is_one_line_at_the_field(place, engine, temporary, monkeypatch):
    """It was an error without a reason, and a traceback in the server's log."""
    file = some(temporary / "up")
    monkeypatch.setattr(place, full)
    with pytest.raises(SpectraError) as error:
        engine.build_store("a", file, 5, lambda *_: None)
    assert str(error.value) == f"file: {TOLD}" and left(temporary) == []


@pytest.mark.parametrize("place", ["tempfile.TemporaryDirectory", "os.fsync"])
def test_a_disk_that_refuses_a_text_is_one_line_and_the_writing_goes_on_later(place, temporary, monkeypatch):
    texts = VisitorTexts()

    def answer(question, seed, on_step):
        return {"user": question.user, "assistant": "one", "temperature": question.temperature}

    with monkeypatch.context() as patch:
        patch.setattr(place, full)
        with pytest.raises(SpectraError) as error:
            texts.write("a", ORDER, answer, lambda *_: None)
    assert str(error.value) == f"texts: {TOLD}"
    texts.write("a", ORDER, answer, lambda *_: None)
    assert texts.written("a", ORDER) == 3
    texts.clear()


def test_few_visitors_have_a_store_and_a_new_one_takes_the_old_ones_place(engine, temporary, monkeypatch):
    monkeypatch.setattr(engine, "_visitor_stores", VisitorStores(max_visitors=2))
    file = some(temporary / "up")
    for visitor in ("a", "b", "a", "c"):
        engine.build_store(visitor, file, 9, lambda *_: None)
    assert [len(engine.stores(visitor)) for visitor in "abc"] == [1, 0, 1] and len(left(temporary)) == 2
    engine._visitor_stores.clear()
    assert left(temporary) == []


ORDER = TextOrder(("abcab", "bcd"), 3, 40)


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    """A model whose text is read back as the tokens it was."""
    folder = tmp_path_factory.mktemp("models") / "letters"
    make("llama", 0, max_position_embeddings=400).save_pretrained(folder)
    letters().save_pretrained(folder)
    return Engine.load(str(folder))


def stop_at(texts):
    def on_written(count, tokens):
        if count >= texts:
            raise KeyboardInterrupt

    return on_written


def test_the_model_writes_text_and_a_store_of_it_answers(writer, temporary):
    heard = []
    writer.write_texts("a", ORDER, lambda *news: heard.append(news))
    assert heard[-1][0] == 3 and heard == sorted(heard) and writer.written("a", ORDER) == 3
    texts = [json.loads(line) for line in writer._visitor_texts.file_of("a").read_text().splitlines()]
    assert [(text["user"], text["temperature"]) for text in texts] == [("abcab", 0), ("bcd", 0), ("abcab", 0.7)]
    plain = writer.answer(asked("abcab", "autoregressive", max_new_tokens=40))
    list(plain)
    by_plain = writer.target.tokenizer.decode(plain.trace.tokens)
    assert texts[0]["assistant"] == by_plain  # by another method, the same text
    card = writer.build_written("a", 9, lambda *_: None)
    assert card["name"] == "written-by-the-model" and 1 <= card["kept"]["texts"] <= 3
    mine = writer.answer(asked("abcab", "spectra", max_new_tokens=40, visitor="a"))
    list(mine)
    assert mine.trace.tokens == plain.trace.tokens and Source.RETRIEVAL in mine.trace.sources
    writer.forget("a")
    assert list(temporary.iterdir()) == [] and writer.written("a", ORDER) == 0


def test_a_stopped_writing_keeps_finished_texts_and_goes_on_to_the_same(writer, temporary):
    writer.write_texts("whole", ORDER, lambda *_: None)
    whole = writer._visitor_texts.file_of("whole").read_bytes()
    with pytest.raises(KeyboardInterrupt):
        writer.write_texts("a", ORDER, stop_at(1))
    assert writer.written("a", ORDER) == 1
    writer.write_texts("a", ORDER, lambda *_: None)
    assert writer._visitor_texts.file_of("a").read_bytes() == whole
    other = TextOrder(("d",), 1, 40)
    writer.write_texts("a", other, lambda *_: None)
    assert writer.written("a", ORDER) == 0 and writer.written("a", other) == 1
    for visitor in ("a", "whole"):
        writer.forget(visitor)
    assert list(temporary.iterdir()) == []


def test_texts_of_one_who_left_while_they_were_written_end_the_writing(temporary):
    """What is being written ends with one line, not with a traceback in the server's log."""
    texts = VisitorTexts()

    def answer(question, seed, on_step):
        texts.drop("a")
        return {"user": question.user, "assistant": "one"}

    with pytest.raises(SpectraError, match=r"^texts: they were let go while they were written"):
        texts.write("a", ORDER, answer, lambda *_: None)
    assert texts.written("a", ORDER) == 0 and left(temporary) == []


def test_texts_too_short_for_a_store_and_none_at_all_are_refused(writer, temporary):
    with pytest.raises(SpectraError, match="texts: nothing is written yet"):
        writer.build_written("a", 9, lambda *_: None)
    writer.write_texts("a", TextOrder(("a",), 1, 4), lambda *_: None)
    with pytest.raises(SpectraError, match="texts: no text of it is left of 1"):
        writer.build_written("a", 9, lambda *_: None)
    assert writer.stores("a") == [] and left(temporary) == []
    writer.forget("a")


def test_a_prompt_that_does_not_fit_is_refused(writer, temporary):
    with pytest.raises(SpectraError):
        writer.write_texts("a", TextOrder(("ab" * 250,), 1, 40), lambda *_: None)
    writer.forget("a")
    assert list(temporary.iterdir()) == []


def test_whoever_else_has_text_written_one_that_is_being_written_stays():
    texts, order, spoken = VisitorTexts(), TextOrder(("w5",), 6, 32), []

    def answer(question, seed, on_step):
        return {"user": question.user, "assistant": "w6", "temperature": question.temperature}

    def beside_others(question, seed, on_step):
        spoken.append(seed)
        for number in range(40):
            texts.write(f"{len(spoken)} {number}", TextOrder(("w5",), 1, 32), answer, lambda *_: None)
        return answer(question, seed, on_step)

    texts.write("first", order, beside_others, lambda *_: None)
    assert texts.written("first", order) == 6
    texts.clear()
