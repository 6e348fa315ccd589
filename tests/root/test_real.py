"""SmolLM2 in bf16 with exact numerics: speculative answers are plain decoding's, token for token."""

import json
from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from drafting import decode_by
from examples import ROOT, blocks
from transformers import AutoModelForCausalLM, AutoTokenizer

import spectra
from spectra import Limits, Sampling, summarize
from spectra.methods.resources import load_resources
from spectra.service.recording import encode, record
from spectra.target.embedded import embedded_folder

pytestmark = pytest.mark.real

PROMPTS = (
    "Write a Python function that adds two matrices, with a short test.",
    "List the planets of the solar system and one fact about each.",
    "Repeat the words 'red green blue' five times, then explain why the sky is blue.",
    "Tom has 12 apples, gives 5 to Ann and buys 8 more. How many has he now? Think step by step.",
)
NEW = 40  # tokens


def answer(target, prompt, method, sampling):
    return list(decode_by(target, prompt, method, sampling=sampling, limits=Limits(NEW, target.eos)))


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_identical_to_plain_decoding(smollm, temperature, cases):
    passes, written = Counter(), Counter()
    for seed, text in enumerate(PROMPTS):
        prompt = encode(smollm.tokenizer, text)
        sampling = Sampling(temperature=temperature, seed=seed)
        methods = ["autoregressive", "spectra-core"]
        if cases(not seed and not temperature, True):  # 121 query tokens a step take their time
            methods.append("spectra-paper-core")
        runs = {method: answer(smollm, prompt, method, sampling) for method in methods}
        tokens = {method: [t for step in steps for t in step.tokens] for method, steps in runs.items()}
        for method, steps in runs.items():
            assert tokens[method] == tokens["autoregressive"], (method, text)
            passes[method] += len(steps)
            written[method] += len(tokens[method])
    assert passes["autoregressive"] == written["autoregressive"]
    assert passes["spectra-core"] < written["spectra-core"]
    if not temperature:
        assert passes["spectra-paper-core"] < written["spectra-paper-core"]


def test_numerics_are_exact(smollm):
    assert smollm.facts["numerics"] == "exact"
    assert smollm.facts["dtype"] == "bfloat16"
    assert smollm.trees
    assert smollm.max_query_tokens >= 121  # the literal method fits


def test_a_recorded_answer_is_fluent_text(smollm):
    recording = record(smollm, load_resources(smollm), PROMPTS[1], "spectra", max_new_tokens=NEW)
    pieces = [text for _, some in recording for _, text in some]
    assert "".join(pieces) == recording.trace.text
    assert recording.trace.text == smollm.tokenizer.decode(recording.trace.tokens, skip_special_tokens=True)
    assert "Mercury" in recording.trace.text or "planet" in recording.trace.text
    assert summarize(recording.trace.steps).tau >= 1


def test_custom_generate_equals_stock_generate():
    model = AutoModelForCausalLM.from_pretrained(embedded_folder(), dtype=torch.float32)
    ids = torch.tensor([[504, 3575, 335, 253, 6330, 314]])
    options = {"attention_mask": torch.ones_like(ids), "max_new_tokens": 32, "do_sample": False}
    stock = model.generate(ids, **options)
    assert torch.equal(model.generate(ids, custom_generate=spectra.generate, **options), stock)


def test_the_example_of_a_grammar():
    pytest.importorskip("xgrammar")
    (example,) = (block for block in blocks(ROOT / "docs/guides.md", "text") if "xgrammar" in block)
    model, tokenizer = (kind.from_pretrained(embedded_folder()) for kind in (AutoModelForCausalLM, AutoTokenizer))
    inputs, made = tokenizer("The city of Paris as JSON:", return_tensors="pt"), []
    shown = SimpleNamespace(
        config=model.config, generate=lambda **options: made.append(model.generate(max_new_tokens=12, **options))
    )
    exec(compile(example, "docs/guides.md", "exec"), {"model": shown, "tokenizer": tokenizer, "inputs": inputs})
    assert tokenizer.decode(made[0][0, inputs["input_ids"].shape[1] :]).lstrip()[0] in "{["


def test_json_by_a_grammar_of_xgrammar():
    """Its processor only moves forward: a call for a guess that is not reached would end in another text."""
    xgrammar = pytest.importorskip("xgrammar")
    hf = pytest.importorskip("xgrammar.contrib.hf")
    folder = embedded_folder()
    model, tokenizer = (kind.from_pretrained(folder) for kind in (AutoModelForCausalLM, AutoTokenizer))
    model.float()
    schema = {"properties": {"city": {"type": "string"}, "population": {"type": "integer"}}}
    known = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=model.config.vocab_size)
    grammar = xgrammar.GrammarCompiler(known).compile_json_schema(
        {"type": "object", "required": list(schema["properties"]), **schema}
    )

    class Counted(hf.LogitsProcessor):
        calls = 0

        def __call__(self, ids, scores):
            self.calls += 1
            return super().__call__(ids, scores)

    question = [{"role": "user", "content": "Describe the city of Paris as JSON: city, population."}]
    inputs = tokenizer.apply_chat_template(question, return_tensors="pt", return_dict=True, add_generation_prompt=True)
    texts = []
    for options in ({}, {"custom_generate": spectra.generate}):
        processor = Counted(grammar)
        out = model.generate(**inputs, max_new_tokens=40, do_sample=False, logits_processor=[processor], **options)
        new = out[0, inputs["input_ids"].shape[1] :]
        assert processor.calls == len(new)
        texts.append(tokenizer.decode(new, skip_special_tokens=True))
    assert texts[0] == texts[1] and set(json.loads(texts[1])) == {"city", "population"}
