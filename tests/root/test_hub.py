"""The folder `hub`: what `generate` of transformers loads by name, or takes as a callable."""

import importlib.util
import inspect
import re
import shutil
from functools import partial
from pathlib import Path

import pytest
import torch
from examples import blocks
from tiny import make, model_of
from transformers import AutoModelForCausalLM, GenerationConfig, LogitsProcessor, StoppingCriteria
from transformers.generation.streamers import BaseStreamer
from words import letters, save_model

import spectra
from spectra.errors import SpectraError

HUB = Path(__file__).parents[2] / "assets" / "hub"
PROMPT = torch.tensor([[5, 6, 7, 5, 6, 7, 5]])
OPTIONS = {"attention_mask": torch.ones_like(PROMPT), "max_new_tokens": 24, "do_sample": False}


def by_name(model, *arguments, **options):
    trusted = {"custom_generate": str(HUB), "trust_remote_code": True}
    return model.generate(*arguments, **{**OPTIONS, **options, **trusted})


@pytest.fixture(autouse=True)
def installed(monkeypatch, tmp_path):
    """transformers compares requirements.txt with installed packages, which a checkout is not, and copies modules."""
    asked = []
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path))
    monkeypatch.setattr("transformers.generation.utils.check_python_requirements", lambda *a, **k: asked.append(a))
    return asked


class Heard(BaseStreamer):
    def __init__(self):
        self.tokens, self.ended = [], False

    def put(self, value):
        self.tokens += value.flatten().tolist()

    def end(self):
        self.ended = True


def test_by_name_it_equals_stock(installed):
    model = model_of("llama")
    truth = model.generate(PROMPT, **OPTIONS)
    assert truth.shape[1] > PROMPT.shape[1] + 5
    assert torch.equal(by_name(model, PROMPT), truth)
    assert torch.equal(by_name(model, input_ids=PROMPT, method="autoregressive", nodes=8), truth)
    assert Path(installed[0][0]) == HUB


def test_by_name_it_hears_every_argument(tmp_path):
    model = model_of("llama")
    heard = Heard()
    out = by_name(model, PROMPT, streamer=heard)
    assert heard.tokens == out[0].tolist() and heard.ended
    with pytest.raises(SpectraError, match="method"):
        by_name(model, PROMPT, method="nothing")
    with pytest.raises(SpectraError, match="num_beams"):
        by_name(model, PROMPT, num_beams=2)
    with pytest.raises(SpectraError, match=r"^assistant_model: not supported; .*method=\"draft-model\", drafts="):
        by_name(model, PROMPT, assistant_model=model)
    make("llama", 3).double().save_pretrained(tmp_path)
    assert torch.equal(by_name(model, PROMPT, method="draft-model", drafts=[tmp_path]), out)
    once = {"do_sample": True, "temperature": 0.8}
    assert torch.equal(by_name(model, PROMPT, seed=3, **once), by_name(model, PROMPT, seed=3, **once))
    calls = []

    class Nine(LogitsProcessor):
        def __call__(self, ids, scores):
            calls.append("processor")
            return scores.index_fill(-1, torch.tensor([9]), 1e9)

    class AfterTwo(StoppingCriteria):
        def __call__(self, ids, scores, **options):
            return torch.full((ids.shape[0],), ids.shape[1] >= PROMPT.shape[1] + 2)

    short = by_name(model, PROMPT, logits_processor=[Nine()], stopping_criteria=[AfterTwo()])
    assert short[0, PROMPT.shape[1] :].tolist() == [9, 9] and calls


def test_by_name_stop_strings_end_an_answer():
    model, tokenizer = model_of("llama"), letters()
    said = tokenizer.decode(model.generate(PROMPT, **OPTIONS)[0, PROMPT.shape[1] :])
    options = {"stop_strings": [said[4:6]], "tokenizer": tokenizer}
    truth = model.generate(PROMPT, **OPTIONS, **options)
    assert truth.shape[1] < PROMPT.shape[1] + len(said)
    assert torch.equal(by_name(model, PROMPT, **options), truth)
    criteria = [lambda ids, scores, **_: torch.full((len(ids),), ids.shape[1] > PROMPT.shape[1])]
    assert by_name(model, PROMPT, stopping_criteria=criteria, **options).shape[1] == PROMPT.shape[1] + 1


@pytest.mark.parametrize("own", [False, True], ids=["given", "the model's"])
def test_by_name_stop_strings_of_a_generation_config_end_an_answer(monkeypatch, own):
    """transformers asked for the tokenizer, which was there."""
    model, tokenizer = model_of("llama"), letters()
    said = tokenizer.decode(model.generate(PROMPT, **OPTIONS)[0, PROMPT.shape[1] :])
    config = GenerationConfig(stop_strings=[said[4:6]], max_new_tokens=24, do_sample=False, pad_token_id=0)
    options = {"attention_mask": OPTIONS["attention_mask"], "tokenizer": tokenizer}
    if own:
        monkeypatch.setattr(model, "generation_config", config)
    else:
        options["generation_config"] = config
    truth = model.generate(PROMPT, **options)
    assert truth.shape[1] < PROMPT.shape[1] + len(said)
    trusted = {"custom_generate": str(HUB), "trust_remote_code": True}
    assert torch.equal(model.generate(PROMPT, **options, **trusted), truth)
    assert config.stop_strings == [said[4:6]]


def test_in_the_repository_of_a_model_it_is_that_models_generate(tmp_path):
    """transformers then calls it with what `generate` was given, no more; it was taken for prepared arguments."""
    model_of("llama").save_pretrained(tmp_path)
    shutil.copytree(HUB / "custom_generate", tmp_path / "custom_generate")
    model = AutoModelForCausalLM.from_pretrained(tmp_path, trust_remote_code=True, dtype=torch.float64)
    truth = type(model).generate(model, PROMPT, **OPTIONS)
    assert truth.shape[1] > PROMPT.shape[1] + 5
    heard = Heard()
    assert torch.equal(model.generate(input_ids=PROMPT, **OPTIONS, method="spectra-core", streamer=heard), truth)
    assert heard.tokens == truth[0].tolist()
    with pytest.raises(SpectraError, match="method"):
        model.generate(input_ids=PROMPT, **OPTIONS, method="nothing")


def test_the_example_of_its_page(capsys, tmp_path):
    (example,) = blocks(HUB / "README.md", "python")
    name = "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert name in example
    ran = {"REPOSITORY": str(HUB)}
    exec(example.replace(name, str(save_model(tmp_path))), ran)
    truth = ran["model"].generate(**ran["inputs"], max_new_tokens=40, do_sample=False)
    assert torch.equal(ran["output"], truth) and truth.shape[1] > ran["inputs"]["input_ids"].shape[1]
    assert capsys.readouterr().out == ran["tokenizer"].decode(truth[0]) + "\n"


def test_it_asks_for_trust():
    with pytest.raises(ValueError, match="trust_remote_code"):
        model_of("llama").generate(PROMPT, **OPTIONS, custom_generate=str(HUB), trust_remote_code=False)


def test_as_a_callable():
    spec = importlib.util.spec_from_file_location("hub_generate", HUB / "custom_generate" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = model_of("llama")
    truth = model.generate(PROMPT, **OPTIONS)
    heard = Heard()
    assert torch.equal(model.generate(PROMPT, **OPTIONS, custom_generate=module.generate), truth)
    bound = partial(module.generate, streamer=heard, method="spectra-core")
    assert torch.equal(model.generate(PROMPT, **OPTIONS, custom_generate=bound), truth)
    assert heard.tokens == truth[0].tolist()
    own = set(inspect.signature(spectra.generate).parameters) - {"model", "input_ids", "model_kwargs"}
    assert set(module.OPTIONS) == own - {"logits_processor", "stopping_criteria", "generation_config"}


def test_what_its_files_say():
    text = (HUB / "README.md").read_text()
    assert "library_name: transformers" in text and "- custom_generate" in text
    documented = set(re.findall(r"^- `(\w+)`", text, re.M)) | {"streamer"}
    options = re.search(r"OPTIONS = \((.*?)\)", (HUB / "custom_generate" / "generate.py").read_text(), re.S)
    assert options is not None and documented == set(re.findall(r'"(\w+)"', options[1]))
    assert (HUB / "custom_generate/requirements.txt").read_text() == f"spectra-decoding>={spectra.__version__}\n"
