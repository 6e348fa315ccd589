"""llama.cpp as a peer: who is refused and why, and where an answer ends; on the real file where it is installed."""

import importlib.util

import pytest

from spectra.bench.run import llama_cpp
from spectra.bench.run.answers import AnswerOptions
from spectra.bench.run.llama_cpp import LlamaCpp, check_llama_cpp, load_llama_cpp
from spectra.bench.run.peers import check_assistant, check_whole, run_batch
from spectra.bench.tasks import PromptOptions
from spectra.bench.timing import TimingOptions
from spectra.errors import SpectraError
from spectra.service.loading import ModelOptions
from spectra.settings import Sampling

GREEDY = Sampling()


class Model:
    """Says one token after the other, and remembers whether it was stopped and started anew."""

    def __init__(self):
        self.resets = 0
        self.closed = False

    def n_ctx(self):
        return 32

    def reset(self):
        self.resets += 1

    def generate(self, prompt, *, temp, **_):
        assert temp == 0
        try:
            yield from range(len(prompt), 100)
        finally:
            self.closed = True


def test_an_answer_ends_at_its_length_or_at_an_end_token():
    model = Model()
    peer = LlamaCpp(model, "")
    turn = peer.answer([5, 6, 7], max_new_tokens=4, eos={9})
    assert turn.tokens == [3, 4, 5, 6]
    assert turn.seconds > 0
    assert model.closed
    assert peer.answer([5, 6, 7], max_new_tokens=20, eos={9}).tokens == [3, 4, 5, 6, 7, 8, 9]
    assert model.resets == 2
    with pytest.raises(SpectraError, match=r"^prompt: 3 tokens and 30 new ones do not fit the 32"):
        peer.answer([5, 6, 7], max_new_tokens=30, eos=set())


def test_what_it_cannot_do_is_said_before_anything_is_loaded(tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "llama_cpp" else find(name))
    check_llama_cpp(["spectra", "hf-generate"], None, Sampling(temperature=1))
    with pytest.raises(SpectraError, match=r"^methods: llama-cpp needs a package .*llama-cpp-python==0\.3\.36"):
        check_llama_cpp(["llama-cpp"], None, GREEDY)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if name == "llama_cpp" else find(name))
    with pytest.raises(SpectraError, match=r"^temperature: llama-cpp-lookup draws"):
        check_llama_cpp(["llama-cpp-lookup"], None, Sampling(temperature=0.8))
    with pytest.raises(SpectraError, match=r"^methods: llama-cpp reads GGUF files, and 'some/model' is none"):
        check_llama_cpp(["llama-cpp"], "some/model", GREEDY)
    with pytest.raises(SpectraError, match="reads GGUF files"):
        TimingOptions(PromptOptions(tmp_path), ModelOptions("m"), AnswerOptions(), tmp_path, ("llama-cpp",))
    check_llama_cpp(["llama-cpp"], "a.gguf", GREEDY)
    assert llama_cpp.model_file("a.gguf", "llama-cpp").name == "a.gguf"


def test_stock_peers_need_numbers():
    from accelerate import init_empty_weights
    from gguf_files import tiny_model

    class Target:
        def __init__(self, model):
            self.model = model

    with init_empty_weights(include_buffers=False):
        empty = tiny_model()
    check_whole(["hf-generate"], Target(tiny_model()))
    check_whole(["spectra", "llama-cpp"], Target(empty))
    with pytest.raises(SpectraError, match=r"^weights: hf-generate does not read .*--weights bf16"):
        check_whole(["spectra", "hf-generate"], Target(empty))


def test_a_stock_peer_reads_a_model_that_is_partly_on_disk(tmp_path):
    from tiny import make, target_of
    from transformers import AutoModelForCausalLM

    make("llama").save_pretrained(tmp_path / "model")
    on_disk = {"model.embed_tokens": "cpu", "model.layers.0": "cpu", "model.layers.1": "disk"}
    device_map = on_disk | dict.fromkeys(("model.norm", "model.rotary_emb", "lm_head"), "cpu")
    model = AutoModelForCausalLM.from_pretrained(
        tmp_path / "model", dtype="float32", device_map=device_map, offload_folder=tmp_path / "offload"
    )
    assert any(parameter.is_meta for parameter in model.parameters())
    target = target_of(model)
    check_whole(["hf-generate"], target)
    (said,) = run_batch(target, [[1, 2, 3]], sampling=GREEDY, max_new_tokens=8)
    assert [said] == run_batch(target_of(make("llama")), [[1, 2, 3]], sampling=GREEDY, max_new_tokens=8)


def test_a_stock_peer_reads_a_model_that_is_offloaded_to_the_cpu():
    from accelerate import cpu_offload
    from tiny import make, target_of

    target = target_of(cpu_offload(make("llama"), execution_device="cpu"))
    assert all(parameter.is_meta for parameter in target.model.parameters())
    check_whole(["hf-generate"], target)
    (said,) = run_batch(target, [[1, 2, 3]], sampling=GREEDY, max_new_tokens=8)
    assert [said] == run_batch(target_of(make("llama")), [[1, 2, 3]], sampling=GREEDY, max_new_tokens=8)


def test_the_embedded_model_comes_with_what_peers_need_also_where_it_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr("spectra.target.embedded.packaged_file", lambda: tmp_path)
    for model in (None, "embedded"):
        check_assistant(["hf-assisted"], None, model)
        assert llama_cpp.model_file(model, "llama-cpp") == tmp_path


@pytest.mark.real
@pytest.mark.parametrize("method", llama_cpp.LLAMA_CPP)
def test_it_answers_from_the_embedded_models_file(method):
    pytest.importorskip("llama_cpp")
    peer = load_llama_cpp(method, None, threads=1, context=8192)
    prompt = [504, 3575, 282, 4649, 314]  # The capital of France is
    assert "llama-cpp-python 0." in peer.built
    first = peer.answer(prompt, max_new_tokens=12, eos={2}).tokens
    assert first == peer.answer(prompt, max_new_tokens=12, eos={2}).tokens
    assert 0 < len(first) <= 12
