"""Reading corpora: every kind of file gives the same texts, pieces at a time, and what is malformed is named."""

import bz2
import gzip
import json
import lzma
import sys
import tracemalloc
import types

import pyarrow
import pyarrow.parquet
import pytest

from spectra.datastore.build import hub
from spectra.datastore.build.corpus import Corpus
from spectra.datastore.build.readers import Text
from spectra.datastore.sources import digest
from spectra.errors import SpectraError

ROWS = [{"user": f"q{i}", "assistant": f"text {i} é\u4e2d", "source": "ab"[i % 2]} for i in range(5)]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS)
TEXTS = [Text(f"text {i} é\u4e2d", f"q{i}") for i in range(5)]


def texts(*places, **options):
    return list(Corpus([str(place) for place in places], **options))


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("a.jsonl", bytes),
        ("a.jsonl.gz", gzip.compress),
        ("a.jsonl.xz", lzma.compress),
        ("a.JSONL.bz2", bz2.compress),
        ("a.b.ndjson", bytes),
    ],
)
def test_packed_or_not_json_lines_are_the_same(tmp_path, name, pack):
    (tmp_path / name).write_bytes(pack(LINES.encode()))
    assert texts(tmp_path / name) == TEXTS


def test_parquet_rows_are_the_same(tmp_path):
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "a.parquet")
    assert texts(tmp_path / "a.parquet") == TEXTS
    assert texts(tmp_path / "a.parquet", where={"source": ["b"]}) == TEXTS[1::2]


@pytest.mark.parametrize("name", ["assistant", "text", "content", "answer", "completion", "output"])
def test_a_text_goes_by_many_names(tmp_path, name):
    (tmp_path / "a.jsonl").write_text(json.dumps({name: "x", "other": 1}))
    assert texts(tmp_path / "a.jsonl") == [Text("x")]


def test_messages_give_the_assistants_turns_with_what_they_answer(tmp_path):
    turns = [("system", "s"), ("user", "q1"), ("assistant", "a1"), ("user", "q2"), ("assistant", "a2")]
    row = {"messages": [{"role": role, "content": text} for role, text in turns]}
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    assert texts(tmp_path / "a.jsonl") == [Text("a1", "q1"), Text("a2", "q2")]


def test_a_txt_is_split_at_blank_lines(tmp_path):
    (tmp_path / "a.txt").write_text("\n\none\n  two\n \n\nthree\r\n\r\nfour é")
    assert [one.text for one in texts(tmp_path / "a.txt")] == ["one\n  two", "three", "four é"]


def test_a_huge_paragraph_and_a_huge_line_are_read_in_pieces(tmp_path):
    line = "é" * 3_000_000
    (tmp_path / "a.txt").write_text(line + "\n" + "word\n" * 300_000)
    tracemalloc.start()
    pieces, most = [], 0
    for one in Corpus([str(tmp_path / "a.txt")]):
        pieces.append((len(one.text), one.text[:1], one.text[-4:]))
        most = max(most, len(one.text))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most <= 2 << 20
    assert peak < 16 << 20
    assert sum(size for size, first, _ in pieces if first == "é") >= 3_000_000
    assert pieces[-1][2] == "word"


def test_a_folder_gives_its_python_sources_in_order(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "two.py").write_text("two = 2\n")
    (tmp_path / "a.py").write_bytes("# coding: latin-1\nname = 'é'\n".encode("latin-1"))
    (tmp_path / "notes.txt").write_text("not this")
    assert [one.text for one in texts(tmp_path)] == ["# coding: latin-1\nname = 'é'\n", "two = 2\n"]
    (facts,) = Corpus([str(tmp_path)]).facts()
    assert (facts["name"], facts["files"]) == (f"{tmp_path.name}/", 2)


def test_the_standard_library_has_no_tests_in_it():
    corpus = Corpus(["stdlib"])
    assert corpus.size > 3_000_000
    first = next(iter(corpus))
    assert first.text
    from spectra.datastore.build.corpus import files_of

    names = {str(path) for path in files_of("stdlib")}
    assert any(name.endswith("/heapq.py") for name in names)
    assert not any(part in name for name in names for part in ("/test/", "/tests/", "site-packages", "idle_test"))


def test_facts_follow_the_bytes(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text(LINES)
    before = Corpus([str(file)]).facts()
    file.write_text(LINES.replace("q0", "q9"))
    after = Corpus([str(file)]).facts()
    assert before[0]["bytes"] == after[0]["bytes"]
    assert before[0]["sha256"] != after[0]["sha256"]
    assert before[0]["name"] == "a.jsonl"


def test_position_runs_to_size(tmp_path):
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text(LINES)
    corpus = Corpus([str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")])
    seen = [corpus.position for _ in corpus]
    assert seen == sorted(seen)
    assert corpus.position == corpus.size == 2 * len(LINES.encode())


BAD = {
    "not json": ("a.jsonl", b'{"text": "x"}\n{"text": \n', "line 2 is not a JSON object"),
    "no object": ("a.jsonl", b'{"text": "x"}\n\n[1]\n', "line 3 is not a JSON object"),
    "nested": ("a.jsonl", b"[" * 100_000, "line 1 is not a JSON object"),
    "no field": ("a.jsonl", b'{"texts": "x"}', "line 1 has none of the fields assistant"),
    "no text": ("a.jsonl", b'{"text": 5}', "line 1 has a text that is not text"),
    "bad turns": ("a.jsonl", b'{"messages": "x"}', "line 1 has messages that are not a list of turns"),
    "bad bytes": ("a.jsonl", b'{"text": "\xff\xfe"}', "line 1 is not a JSON object"),
    "cut gz": ("a.jsonl.gz", gzip.compress(LINES.encode())[:-12], "a.jsonl.gz cannot be read"),
    "no gz": ("a.jsonl.gz", LINES.encode(), "a.jsonl.gz cannot be read"),
    "cut xz": ("a.jsonl.xz", lzma.compress(LINES.encode())[:-12], "a.jsonl.xz cannot be read"),
    "bad txt": ("a.txt", b"fine\n\n\xff\xfe\n", "a.txt cannot be read"),
    "cut txt": ("a.txt", "é".encode()[:1], "a.txt cannot be read"),
    "no parquet": ("a.parquet", b"PAR1 not really", "a.parquet cannot be read"),
    "bad source": ("a.py", b"# coding: nonsense\n", "a.py is not Python source text"),
    "source in no text codec": ("a.py", b"# coding: rot13\n", "a.py is not Python source text"),
    "source in a cut codec": ("a.py", b"# coding: utf-16\n", "a.py is not Python source text"),
    "kind": ("a.pdf", b"x", "a.pdf is of no known kind"),
    "no kind": ("a", b"x", "a is of no known kind"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_malformed_is_named(tmp_path, case):
    name, data, problem = BAD[case]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(SpectraError, match=r"^corpus: ") as caught:
        texts(tmp_path / name)
    assert problem in str(caught.value)
    assert ";" in str(caught.value), "the fix is named"
    assert "\n" not in str(caught.value)


def test_malformed_rows_can_be_skipped_and_are_counted(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "x"}\n{"text": \n[1]\n{"text": "y"}\n')
    corpus = Corpus([str(tmp_path / "a.jsonl")], skip_bad=True)
    assert [one.text for one in corpus] == ["x", "y"]
    assert corpus.bad == 2


def test_answers_to_excluded_prompts_are_left_out(tmp_path):
    (tmp_path / "a.jsonl").write_text(LINES)
    corpus = Corpus([str(tmp_path / "a.jsonl")], exclude=frozenset([digest(" Q1"), digest("q4"), digest("x")]))
    assert list(corpus) == [TEXTS[i] for i in (0, 2, 3)]
    assert corpus.excluded == 2


def test_half_a_surrogate_pair_does_no_harm(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a \\ud800 b"}')
    assert [one.text for one in texts(tmp_path / "a.jsonl")] == ["a ? b"]


@pytest.mark.parametrize("place", ["nowhere.jsonl", "empty", "x" * 5000, "device.txt"])
def test_what_is_not_there_is_named_before_anything_is_read(tmp_path, place):
    (tmp_path / "empty").mkdir()
    (tmp_path / "device.txt").symlink_to("/dev/zero")
    with pytest.raises(SpectraError, match=r"^corpus: .*(is not there|holds no|is a device)"):
        Corpus([str(tmp_path / place)])


def test_a_blank_name_is_not_this_folder():
    with pytest.raises(SpectraError, match=r"^corpus: a name is blank; give files, a folder"):
        Corpus([" "])


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "a.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SpectraError, match="needs pyarrow; pip install pyarrow"):
        texts(tmp_path / "a.parquet")


def test_a_hub_data_set_is_streamed_at_one_revision(monkeypatch):
    asked = []

    def load_dataset(path, **options):
        asked.append((path, options))
        return iter(ROWS)

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    info = types.SimpleNamespace(sha="abc", siblings=[types.SimpleNamespace(rfilename="data/name.py")])
    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", lambda *_, **__: info)
    assert texts("hf:owner/name:half:data/python", where={"source": ["a"]}) == TEXTS[::2]
    options = {"data_dir": "data/python", "split": "half", "streaming": True, "revision": "abc"}
    assert asked == [("owner/name", options)]
    assert texts("hf:owner/name:test:main", where={"source": ["a"]}) == TEXTS[::2]
    assert asked[1] == ("owner/name", {"name": "main", "split": "test", "streaming": True, "revision": "abc"})
    assert Corpus(["hf:owner/name"]).facts() == [{"name": "hf:owner/name", "revision": "abc"}]
    assert all(recipe.place.startswith("hf:") for recipe in hub.RECIPES.values())


def test_a_data_set_that_is_a_script_is_read_from_the_hubs_conversion(monkeypatch):
    asked = []

    def load_dataset(path, **options):
        asked.append(options)
        return iter(ROWS)

    def dataset_info(self, name, revision="main", timeout=None):
        files = [types.SimpleNamespace(rfilename=f"{name.split('/')[-1]}.py")]
        return types.SimpleNamespace(sha=f"commit of {revision}", siblings=files)

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", dataset_info)
    converted = "refs/convert/parquet"
    for place, folder in (("hf:owner/name:test", {}), ("hf:owner/name:test:main", {"data_dir": "main"})):
        assert texts(place, where={"source": ["a"]}) == TEXTS[::2]
        assert asked[-1] == {**folder, "split": "test", "streaming": True, "revision": converted}
        assert Corpus([place]).facts() == [{"name": place, "revision": f"commit of {converted}"}]


def test_a_hub_out_of_reach_is_named(monkeypatch):
    def refuse(*_, **__):
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", refuse)
    with pytest.raises(SpectraError, match=r"^corpus: hf:owner/name cannot be read \(no route\); check the name"):
        Corpus(["hf:owner/name"]).facts()
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(SpectraError, match="needs the datasets package; pip install datasets"):
        texts("hf:owner/name")
    with pytest.raises(SpectraError, match="names no data set"):
        Corpus(["hf:"]).facts()
