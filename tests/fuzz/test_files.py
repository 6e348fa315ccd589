"""Files that are brought along: a model's weights and config, a visitor's text. Read, or refused in a line."""

import json
import os
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
from damage import changed, is_one_short_line, places, texts, values
from gguf_files import MIXED, said, tiny_model, write_gguf
from hypothesis import example, given
from hypothesis import strategies as st
from words import letters, save_model

from spectra.datastore.build.corpus import Corpus
from spectra.datastore.build.selftext import Question
from spectra.datastore.build.settings import BuildSettings
from spectra.datastore.build.stock_answers import answer
from spectra.datastore.language import Language
from spectra.errors import SpectraError
from spectra.service.recording import encode
from spectra.service.visitor_file import check_texts, copy_text, plain_name
from spectra.target.gguf_header import read_header
from spectra.target.load import load_network, load_target, load_tokenizer, wrap_model

HEAD = 700
"""Bytes of a file that are changed: a header of safetensors lies at its start."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("model"))


def test_as_they_are(model: Path, packed: Path) -> None:
    for whole in (model, packed):
        assert load_network(whole, device="cpu", dtype="fp32")[0].config.num_hidden_layers == 2


@given(st.integers(0, 10**6), values)
def test_a_changed_header_of_safetensors(model: Path, tmp_path: Path, number: int, value: Any) -> None:
    every = places(header_of(model))
    loads_or_refuses(with_header(model, tmp_path, every[number % len(every)], value))


@pytest.mark.parametrize("shape", [[2**63, 2**63], [-1], [2**31], []])
@pytest.mark.parametrize("offsets", [[4, 0], [2**64, 2**64], [0, 2**62], [0, 4]])
def test_a_tensor_of_safetensors_that_is_not_there(
    model: Path, tmp_path: Path, shape: list[int], offsets: list[int]
) -> None:
    facts = {"dtype": "F32", "shape": shape, "data_offsets": offsets}
    loads_or_refuses(with_header(model, tmp_path, ("model.norm.weight",), facts), refused=True)


def header_of(model: Path) -> Any:
    whole = (model / "model.safetensors").read_bytes()
    return json.loads(whole[8 : 8 + int.from_bytes(whole[:8], "little")])


def with_header(model: Path, tmp_path: Path, place: tuple[Any, ...], value: Any) -> Path:
    """A copy whose weights' header has another value there."""
    folder = tmp_path / "model"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(model, folder)
    whole = (folder / "model.safetensors").read_bytes()
    text = json.dumps(changed(header_of(model), place, value)).encode()
    data = whole[8 + int.from_bytes(whole[:8], "little") :]
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    return folder


MODEL_FILES = ["model.safetensors", "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"]


@given(st.sampled_from(MODEL_FILES), st.data())
def test_a_models_files(model: Path, tmp_path: Path, name: str, data: st.DataObject) -> None:
    folder = tmp_path / "model"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(model, folder)
    whole = bytearray((folder / name).read_bytes())
    for at in data.draw(st.lists(st.integers(0, min(HEAD, len(whole)) - 1), min_size=1, max_size=4)):
        whole[at] ^= data.draw(st.integers(1, 255))
    (folder / name).write_bytes(whole[: data.draw(st.sampled_from([len(whole), 0, 7, 8, 9, 100]))])
    loads_or_refuses(folder)


@pytest.mark.parametrize("said", [{}, {"a": 1}, "</s>", "2", True, 2.5, [2, "x"], [[2]], [None]], ids=repr)
def test_an_end_of_answers_that_is_no_token(model: Path, tmp_path: Path, said: Any) -> None:
    """A dict ended in a traceback, and with a text no answer ended where the model ends it."""
    folder = Path(shutil.copytree(model, tmp_path / "model"))
    file = folder / "generation_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "eos_token_id": said}))
    try:
        network, tokenizer, _ = load_network(folder, device="cpu", dtype="fp32")
        target = wrap_model(network, tokenizer, numerics="fast", step="eager")
        with pytest.raises(SpectraError) as refused:
            next(iter(target.eos))
        with pytest.raises(SpectraError, match="eos_token_id"):
            answer(network, tokenizer, [Question("", "w5", 0.0)], 4)
    except SpectraError as error:  # transformers takes no such config
        assert error.field == "model" and is_one_short_line(error)
    else:
        assert refused.value.field == "model" and is_one_short_line(refused.value)


def test_a_tokenizer_that_reads_no_text_is_named(model: Path, tmp_path: Path) -> None:
    """`--raw`, and the building and asking of stores, ended in a traceback."""
    folder = Path(shutil.copytree(model, tmp_path / "model"))
    file = folder / "tokenizer.json"
    said = json.loads(file.read_text())
    said["model"]["vocab"] = {}  # not even the token for unknown words
    file.write_text(json.dumps(said))
    tokenizer, name = load_tokenizer(folder)
    for asked in (lambda: encode(tokenizer, "w5", raw=True), lambda: Language(tokenizer, name).encode(["w5"])):
        with pytest.raises(SpectraError, match=r"^model: its tokenizer cannot read the text \(.*; give") as refused:
            asked()
        assert is_one_short_line(refused.value)


@pytest.mark.parametrize("layers", [0, -1])
def test_a_model_without_layers_is_refused(model: Path, tmp_path: Path, layers: int) -> None:
    """It ended in an IndexError once it was loaded."""
    folder = Path(shutil.copytree(model, tmp_path / "model"))
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "num_hidden_layers": layers}))
    with pytest.raises(SpectraError, match=r"^model: model has no layers by its config; ") as refused:
        load_target(folder, device="cpu")
    assert is_one_short_line(refused.value)


@pytest.mark.parametrize("head", [2**63 - 1, 2**40, 0, 8, 1])
def test_a_header_of_safetensors_that_says_another_length(model: Path, tmp_path: Path, head: int) -> None:
    folder = Path(shutil.copytree(model, tmp_path / "model"))
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(head.to_bytes(8, "little") + whole[8:])
    loads_or_refuses(folder, refused=True)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model in a GGUF file."""
    return Path(write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", tiny_model(), MIXED))


@given(st.data())
def test_a_header_of_gguf(packed: Path, tmp_path: Path, data: st.DataObject) -> None:
    whole = bytearray(packed.read_bytes())
    header = min(place.start for place in read_header(packed).tensors.values())
    for at in data.draw(st.lists(st.integers(0, header - 1), min_size=1, max_size=4)):
        whole[at] ^= data.draw(st.integers(1, 255))
    file = tmp_path / "tiny.gguf"
    file.write_bytes(whole[: data.draw(st.sampled_from([len(whole), header, header // 2, 40]))])
    loads_or_refuses(file)


@pytest.mark.parametrize("number", [0, 1, 3, 2**31 - 1, 2**32 - 1])
@pytest.mark.parametrize(
    "key",
    [
        *("context_length", "block_count", "embedding_length", "feed_forward_length", "attention.head_count"),
        *("attention.head_count_kv", "attention.key_length", "rope.dimension_count", "rope.freq_base"),
    ],
)
def test_sizes_of_a_gguf_file_that_its_tensors_have_not(packed: Path, tmp_path: Path, key: str, number: int) -> None:
    """Nothing is made of a size before the tensors are seen to have it."""
    file = tmp_path / "tiny.gguf"
    file.write_bytes(said(packed.read_bytes(), f"llama.{key}", number))
    loads_or_refuses(file, refused=number > 3 and key not in ("context_length", "rope.freq_base"))


def entry(key: str, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", kind) + value


@pytest.mark.parametrize(
    "value",
    [
        (9, struct.pack("<IQ", 9, 2) * 5000),  # lists of lists of lists
        (9, struct.pack("<IQ", 0, 2**63)),
        (9, struct.pack("<IQ", 8, 2**63)),
        (9, struct.pack("<IQ", 99, 2**63)),
        (8, struct.pack("<Q", 2**64 - 1)),
        (99, b""),
    ],
    ids=["nested", "long", "texts", "of no kind", "a long text", "of no kind either"],
)
@pytest.mark.parametrize("count", [1, 2**63])
def test_metadata_of_gguf_without_an_end(tmp_path: Path, value: tuple[int, bytes], count: int) -> None:
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, count) + entry("a", *value))
    loads_or_refuses(file, refused=True)


@pytest.mark.parametrize("alignment", [-32, 0, 2**31 - 1])
def test_an_alignment_of_gguf_that_is_none(tmp_path: Path, alignment: int) -> None:
    file = tmp_path / "tiny.gguf"
    metadata = entry("general.alignment", 5, struct.pack("<i", alignment))
    metadata += entry("general.architecture", 8, struct.pack("<Q", 5) + b"llama")
    tensor = struct.pack("<Q", 17) + b"token_embd.weight" + struct.pack("<IQQIQ", 2, 4, 4, 0, 0)
    file.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1, 2) + metadata + tensor + bytes(400))
    loads_or_refuses(file, refused=True)


def loads_or_refuses(folder: Path, *, refused: bool = False) -> None:
    try:
        load_network(folder, device="cpu", dtype="fp32")
    except SpectraError as error:
        assert error.field == "model" and is_one_short_line(error)
        return
    assert not refused


@given(st.one_of(st.binary(max_size=300), texts.map(lambda text: text.encode(errors="surrogatepass"))), st.sampled_from(
    ["a.txt", "a.jsonl", "a.JSONL", "a", ".txt", "a.exe", "<b>.txt", "a b\n.txt", "-x.txt", "ä" * 60 + ".txt"]
))  # fmt: skip
@example(b'{"text": "\\ud800"}\n' * 40, "a.jsonl")
@example(b'{"text": NaN}', "a.jsonl")
@example(b"[" * 5000, "a.jsonl")
@example(b"\xef\xbb\xbfhello there", "a.txt")
def test_an_upload(tmp_path: Path, content: bytes, name: str) -> None:
    place = tmp_path / "up"
    place.mkdir(exist_ok=True)
    file = place / name
    file.write_bytes(content)
    folder = tmp_path / "work"
    folder.mkdir(exist_ok=True)
    try:
        copy = copy_text(file, folder)
        assert copy.parent == folder and copy.name.isascii()
        corpus = Corpus([str(copy)], skip_bad=True)
        check_texts(corpus, Language(letters(), "tiny"), BuildSettings(min_tokens=2))
    except SpectraError as error:
        assert is_one_short_line(error)
        text = str(error).replace(f"{folder}/", "")
        assert str(tmp_path) not in text
    finally:
        file.unlink()


@given(texts)
def test_a_name_for_a_folder(name: str) -> None:
    plain = plain_name(name)
    assert plain and plain.isascii() and os.sep not in plain and len(plain) <= 40
