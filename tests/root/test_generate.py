"""The drop-in for `generate`: the same tokens as stock, and what it cannot do is named."""

import inspect
import math
import threading
import warnings
from functools import partial
from pathlib import Path

import pytest
import torch
from drafting import TopTextStore
from generating import MASK, PROMPT, EndsInFive, Grammar, OddOnly, Reader, Spoils, WritesInPlace, ours, stock
from tiny import DEAR, FAMILIES, VOCABULARY, make, model_of, target_of
from transformers import (
    DynamicCache,
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    GenerationConfig,
    LlamaForCausalLM,
    LogitsProcessorList,
    RecurrentGemmaConfig,
    RecurrentGemmaForCausalLM,
    StoppingCriteriaList,
    StopStringCriteria,
    T5Config,
    T5ForConditionalGeneration,
)
from words import letters

import spectra
from spectra.decode import decode
from spectra.drafters.near_certain import table_of
from spectra.errors import SpectraError, TargetBusyError
from spectra.methods.presets import make_method
from spectra.settings import Sampling
from spectra.target import draft_model
from spectra.target.choices import CACHES
from spectra.target.load import wrap_model
from spectra.target.preflight import Probe, measure_execution


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_equals_stock(family):
    model = model_of(family)
    truth = stock(model)
    assert truth.shape[1] > PROMPT.shape[1] + 5
    assert torch.equal(ours(model), truth)
    for method in ("spectra-paper-core", "autoregressive"):
        assert torch.equal(ours(model, method=method, nodes=20), truth)


def test_methods_with_a_draft_model(tmp_path, monkeypatch):
    model = make("llama").double()
    make("llama", 3).save_pretrained(tmp_path)
    truth = stock(model)
    loads = []
    monkeypatch.setattr("spectra.target.draft_model.load_like", counting(draft_model.load_like, loads))
    for method in ("draft-model", "specinfer"):
        assert torch.equal(ours(model, method=method, drafts=[tmp_path]), truth)
    assert len(loads) == 1
    options = {"do_sample": True, "top_k": 1, "temperature": 0.5}
    assert torch.equal(ours(model, method="rrsw", drafts=[tmp_path], seed=3, **options), truth)
    with pytest.raises(SpectraError, match="draft: no draft model fits"):
        ours(model, method="draft-model")
    for method in ("spectra", "anpd", "autoregressive"):
        with pytest.raises(SpectraError, match=f"^drafts: {method} asks no draft model; .* such as spectra-draft$"):
            ours(model, method=method, drafts=[tmp_path])
    assert torch.equal(ours(model, method="spectra-draft", drafts=[tmp_path]), truth)


def test_it_takes_fewer_passes(monkeypatch):
    model = make("llama").double()
    passes = []
    monkeypatch.setattr(model, "forward", counting(model.forward, passes))
    ours(model, max_new_tokens=200)  # the first call measures the model
    passes.clear()
    out = ours(model, max_new_tokens=200)
    assert out.shape[1] == 207
    assert len(passes) < 190


def counting(function, calls):
    from functools import wraps

    @wraps(function)
    def counted(*args, **kwargs):
        calls.append(1)
        return function(*args, **kwargs)

    return counted


def test_sampling_repeats_with_a_seed_and_follows_torchs_without():
    model = model_of("llama")
    options = {"do_sample": True, "temperature": 0.9, "top_k": 20, "top_p": 0.9}
    first = ours(model, seed=3, **options)
    assert torch.equal(ours(model, seed=3, **options), first)
    assert torch.equal(ours(model, seed=3, method="autoregressive", **options), first)
    assert not torch.equal(ours(model, seed=4, **options), first)
    torch.manual_seed(8)
    drawn = ours(model, **options)
    torch.manual_seed(8)
    assert torch.equal(ours(model, **options), drawn)
    assert not torch.equal(ours(model, **options), drawn)


def test_a_bound_streamer_gets_everything_and_its_end():
    model, reader, theirs = model_of("llama"), Reader(), Reader()
    out = ours(model, partial(spectra.generate, streamer=reader))
    stock(model, streamer=theirs)
    assert reader.got == out[0].tolist() == theirs.got
    assert (reader.ended, theirs.ended) == (1, 1)


def test_a_streamer_is_ended_when_decoding_fails():
    def fails(input_ids, scores, **_):
        raise RuntimeError("criteria")

    reader = Reader()
    with pytest.raises(RuntimeError, match="criteria"):
        ours(model_of("llama"), partial(spectra.generate, streamer=reader), stopping_criteria=[fails])
    assert reader.ended == 1


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_threads_take_turns_on_one_model(family, tmp_path, monkeypatch):
    """Before the model was ever measured, and afterwards."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("SPECTRA_NATIVE", "0")
    model = make(family).to(torch.bfloat16)
    before, found = model.config._attn_implementation, []
    for _ in range(2):
        threads = [threading.Thread(target=lambda: found.append(ours(model))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 6 and all(torch.equal(one, found[0]) for one in found)
    assert model.config._attn_implementation == before


def test_targets_of_one_model_decode_one_at_a_time():
    model = model_of("llama")
    first, second = (wrap_model(model, numerics="exact") for _ in range(2))
    before = model.config._attn_implementation
    steps = decode(first, [5, 6, 7], make_method("spectra-core", first))
    next(steps)
    with pytest.raises(TargetBusyError, match="this model"):
        next(decode(second, [5, 6, 7], make_method("spectra-core", second)))
    steps.close()
    assert model.config._attn_implementation == before
    next(decode(second, [5, 6, 7], make_method("spectra-core", second)))


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("num_beams", {"num_beams": 2}),
        ("penalty_alpha", {"penalty_alpha": 0.6, "top_k": 4}),
        ("dola_layers", {"dola_layers": "low"}),
        ("force_words_ids", {"force_words_ids": [[9]]}),
        ("attention_mask", {"attention_mask": torch.tensor([[1, 1, 0, 1, 1, 1, 1]])}),
        ("attention_mask", {"attention_mask": torch.ones(1, 4)}),
        ("attention_mask", {"attention_mask": torch.ones(1, 9)}),
        ("attention_mask", {"inputs": PROMPT.repeat(2, 1), "attention_mask": MASK * torch.tensor([[1], [0]])}),
        ("inputs_embeds", {"inputs_embeds": torch.zeros(1, 7, 48, dtype=torch.float64)}),
        ("use_cache", {"use_cache": False}),
        ("return_dict_in_generate", {"return_dict_in_generate": True}),
        ("method", {"method": "magic"}),
        ("nodes", {"nodes": 0}),
        ("numerics", {"numerics": "precise"}),
        ("seed", {"do_sample": True, "seed": -1}),
        ("at_once", {"at_once": 0}),
        ("at_once", {"at_once": "4"}),
        ("cache_bytes", {"cache_bytes": 100}),
        ("datastores", {"datastores": "datastores/math"}),
        ("datastores", {"datastores": Path("datastores/math")}),
        ("drafts", {"drafts": "assets/models/spectra-nano"}),
        ("remember", {"remember": ""}),
        ("logits_processor", {"logits_processor": [5]}),
        ("logits_processor", {"logits_processor": [lambda ids, scores: None]}),
        ("stopping_criteria", {"stopping_criteria": [5]}),
    ],
)
def test_what_it_cannot_do_is_named(field, options):
    given = {"attention_mask": MASK, "inputs": PROMPT, "max_new_tokens": 9, **options}
    with pytest.raises(SpectraError) as error:
        model_of("llama").generate(given.pop("inputs"), custom_generate=spectra.generate, **given)
    assert error.value.field == field


@pytest.mark.parametrize("ids", [PROMPT[0], PROMPT[None], torch.tensor(5), PROMPT.tolist(), "text", None, PROMPT > 0])
def test_ids_that_are_no_rows_are_named(ids):
    """transformers itself fails at them; called without it, they ended in an IndexError or an AttributeError."""
    with pytest.raises(SpectraError, match=r"^input_ids: .*; give a tensor of token ids, \[sequences, length\]$"):
        spectra.generate(model_of("llama"), ids)


@pytest.mark.parametrize("odd", [True, print, [], "text", type("Mute", (), {"put": print})()])
def test_a_streamer_that_is_none_is_named(odd):
    with pytest.raises(SpectraError, match=r"^streamer: a .* has no put and end; give one of transformers$"):
        ours(model_of("llama"), partial(spectra.generate, streamer=odd))


def test_a_filled_cache_is_named():
    model = model_of("llama")
    cache = DynamicCache()
    cache.update(torch.zeros(1, 1, 3, 4), torch.zeros(1, 1, 3, 4), 0)
    for name in CACHES:
        with pytest.raises(SpectraError, match="a filled cache") as error:
            spectra.generate(model, PROMPT, **{name: cache})
        assert error.value.field == name


def test_models_whose_cache_is_called_cache():
    """As in transformers from 5.24 on, which hands an empty one to a custom function too."""

    class Renamed(LlamaForCausalLM):
        def forward(self, input_ids=None, position_ids=None, attention_mask=None, cache=None, **options):
            (name,) = {"cache", "past_key_values"} & set(inspect.signature(LlamaForCausalLM.forward).parameters)
            return super().forward(input_ids, attention_mask, position_ids, **{name: cache}, **options)

    model = model_of("llama")
    renamed = Renamed(model.config).eval()
    renamed.load_state_dict(model.state_dict())
    cut = GenerationConfig(max_new_tokens=24)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        out = spectra.generate(renamed, PROMPT, generation_config=cut, cache=DynamicCache())
    assert torch.equal(out, spectra.generate(model, PROMPT, generation_config=cut))


def test_a_model_with_recurrent_states_alone_is_refused_in_one_line():
    shape = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2}
    config = RecurrentGemmaConfig(**shape, lru_width=32, intermediate_size=64, block_types=["recurrent"])
    model = RecurrentGemmaForCausalLM(config).eval()
    with pytest.raises(SpectraError, match=r"^model: RecurrentGemmaForCausalLM") as refused:
        model.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=4, custom_generate=spectra.generate)
    assert "\n" not in str(refused.value)


def test_a_model_with_an_encoder_is_refused_as_such():
    """It was told to give the input_ids that it had given."""
    shape = {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    model = T5ForConditionalGeneration(T5Config(**shape, decoder_start_token_id=0)).eval()
    with pytest.raises(SpectraError, match=r"^model: it has an encoder; give a causal language model$"):
        model.generate(torch.tensor([[5, 6]]), max_new_tokens=3, custom_generate=spectra.generate)


def test_a_prompt_that_holds_the_pad_token_needs_a_mask():
    """Without one transformers makes holes in it."""
    with pytest.raises(SpectraError, match=r"^attention_mask: .*give one where a prompt holds the pad token$"):
        model_of("llama").generate(
            torch.tensor([[5, 0, 6]]), max_new_tokens=3, pad_token_id=0, custom_generate=spectra.generate
        )


@pytest.mark.parametrize("rows", [1, 2])
def test_a_plain_list_of_criteria(rows):
    """transformers makes a StoppingCriteriaList of it; called without it, a list ended in a TypeError."""
    model, cut = model_of("llama"), GenerationConfig(max_new_tokens=24, pad_token_id=0)
    cut._pad_token_tensor = torch.tensor(0)
    out = spectra.generate(model, PROMPT.repeat(rows, 1), None, [EndsInFive()], cut)
    assert torch.equal(out, stock(model, stopping_criteria=[EndsInFive()]).repeat(rows, 1))


@pytest.mark.parametrize("family", FAMILIES)
def test_processors_and_criteria_of_ones_own(family):
    model = model_of(family)
    for options in (
        {"logits_processor": LogitsProcessorList([OddOnly()])},
        {"stopping_criteria": StoppingCriteriaList([EndsInFive()])},
        {"logits_processor": [OddOnly()], "stopping_criteria": [EndsInFive()], "repetition_penalty": 1.2},
        {"no_repeat_ngram_size": 2, "min_new_tokens": 9, "eos_token_id": [1, 2, 3, 4, 5, 6, 7, 8]},
        {"bad_words_ids": [[3], [5, 6]], "suppress_tokens": [9, 10]},
    ):
        assert torch.equal(ours(model, **options), stock(model, **options)), options


def test_a_processor_that_writes_in_place():
    model = model_of("llama", torch.float32)  # whose logits are the scores, as they are
    options = {"logits_processor": [WritesInPlace()]}
    assert torch.equal(ours(model, **options), stock(model, **options))


SPOILED = {"nan": Spoils(math.nan), "none left": Spoils(-math.inf), "infinite": Spoils(math.inf)}


@pytest.mark.parametrize("native", ["0", "1"])
@pytest.mark.parametrize("name", SPOILED)
def test_a_processor_that_leaves_nothing_to_draw_is_named(name, native, monkeypatch):
    """Stock refuses it too; what it writes greedily is its own."""
    monkeypatch.setenv("SPECTRA_NATIVE", native)
    model = make("llama")
    for method in ("autoregressive", "spectra"):
        for options in ({"logits_processor": [SPOILED[name]]}, {"temperature": 1e-40}):
            with pytest.raises(SpectraError, match=r"^logits_processor: of row 0: after it the scores are no numbers"):
                ours(model, method=method, do_sample=True, seed=1, **options)
    with pytest.raises(RuntimeError):
        stock(model, do_sample=True, logits_processor=[SPOILED[name]])
    options = {"logits_processor": [SPOILED[name]]}
    if name == "nan":
        with pytest.raises(SpectraError, match=r"^logits_processor: "):
            ours(model, **options)
    else:
        assert torch.equal(ours(model, **options), stock(model, **options))


@pytest.mark.parametrize("name", ["output_attentions", "output_hidden_states", "output_scores", "output_logits"])
def test_what_only_a_dictionary_would_hold_changes_nothing(name):
    model = model_of("llama")
    seen = []

    def looks(input_ids, scores, **_):
        seen.append(scores)
        return torch.zeros(1, dtype=torch.bool)

    options = {name: True, "stopping_criteria": [looks]}
    assert torch.equal(ours(model, **options), stock(model, **options))
    assert {*seen} == {None}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_grammar_is_asked_about_visited_nodes_only(family):
    model, grammars = model_of(family), (Grammar(), Grammar())
    outputs = [
        which(model, logits_processor=LogitsProcessorList([grammar]))
        for which, grammar in zip((stock, ours), grammars, strict=True)
    ]
    assert torch.equal(*outputs)
    assert grammars[1].calls == grammars[0].calls == outputs[0].shape[1] - PROMPT.shape[1]


def test_tokens_that_may_follow_a_prefix():
    model = model_of("llama")

    def allowed(_, ids):
        return [token for token in range(VOCABULARY) if token % 5 == int(ids[-1]) * 3 % 5]

    assert torch.equal(ours(model, prefix_allowed_tokens_fn=allowed), stock(model, prefix_allowed_tokens_fn=allowed))


def test_stop_strings_through_their_criteria():
    words, model = letters(), model_of("llama")
    plain = stock(model)[0, PROMPT.shape[1] :].tolist()
    word = words.decode(plain[6:8])
    criteria = StoppingCriteriaList([StopStringCriteria(words, [word])])
    out = ours(model, stopping_criteria=criteria)[0, PROMPT.shape[1] :].tolist()
    assert out == stock(model, stopping_criteria=criteria)[0, PROMPT.shape[1] :].tolist()
    assert words.decode(out).endswith(word)
    assert len(out) < len(plain)


def test_several_end_of_sequence_ids():
    model = model_of("llama")
    plain = stock(model)[0, PROMPT.shape[1] :].tolist()
    for ids in ([plain[5]], [plain[12], plain[9]], list(range(0, VOCABULARY, 3))):
        assert torch.equal(ours(model, eos_token_id=ids), stock(model, eos_token_id=ids))


def test_max_length_and_no_room():
    model = model_of("llama")
    assert torch.equal(
        ours(model, max_length=12, max_new_tokens=None), stock(model, max_length=12, max_new_tokens=None)
    )
    with pytest.raises((SpectraError, ValueError)):
        ours(model, max_length=5, max_new_tokens=None)


@pytest.mark.parametrize(("field", "value"), [("max_new_tokens", 2.5), ("max_length", 12.5)])
def test_half_a_token_is_refused(field, value):
    """It was cut off, and stock `generate` writes one more."""
    with pytest.raises(SpectraError, match=f"{field}: {value} is not a whole number"):
        ours(model_of("llama"), **{"max_new_tokens": None, field: value})


def test_a_criterion_that_gives_no_answer_is_named():
    for said in (None, [True], "yes"):
        with pytest.raises(
            SpectraError, match=f"stopping_criteria: of row 0: one gives a {type(said).__name__}; give one"
        ):
            ours(model_of("llama"), stopping_criteria=[lambda ids, scores, said=said, **options: said])


def test_the_users_model_is_left_as_it_was():
    model = make("gpt2").double()
    model.train()
    ours(model)
    assert model.training
    assert model.config._attn_implementation == "sdpa"
    assert "past_key_values" not in vars(model)


def test_datastores_that_fit_a_bound_tokenizer(tmp_path):
    model = model_of("llama")
    store = tmp_path / "store"
    store.mkdir()
    with pytest.raises(SpectraError, match=r"datastores: stores hold token ids; bind the tokenizer too"):
        ours(model, datastores=[store])
    bound = partial(spectra.generate, tokenizer=letters(), datastores=[store])
    with pytest.raises(SpectraError, match=r"datastore: .*store has no card\.json"):
        ours(model, bound)
    with pytest.raises(SpectraError, match="datastore"):
        ours(model, partial(spectra.generate, tokenizer=letters()), method="spectra-retrieval")  # none of ours fits


def test_the_table_of_what_is_nearly_certain_is_made_once(monkeypatch, tmp_path):
    """It takes a second for large stores, and every call makes methods of its own."""
    made, store = [], TopTextStore([5, 6, 7] * 9)
    store.folder = tmp_path
    monkeypatch.setattr("spectra.datastore.shipped.stores_for", lambda *_: [store])
    monkeypatch.setattr(
        "spectra.drafters.near_certain.table_of", lambda stores: made.append(stores) or table_of(stores)
    )
    model, tokenizer = make("llama"), letters()
    monkeypatch.setattr("spectra.methods.preset.Setup.cost", property(lambda setup: DEAR))
    for _ in range(3):
        bound = partial(spectra.generate, tokenizer=tokenizer)
        model.generate(torch.cat([IDS, IDS]), max_new_tokens=4, do_sample=False, custom_generate=bound)
    assert len(made) == 1


IDS = torch.tensor([[5, 6, 7, 5, 6, 7, 5]])


@pytest.mark.parametrize(
    ("family", "field", "value"),
    [
        ("gpt2", "token_type_ids", torch.zeros_like(IDS)),
        ("gpt2", "token_type_ids", torch.ones_like(IDS)),
        ("gpt2", "position_ids", torch.arange(7)[None] + 3),
        ("llama", "position_ids", torch.arange(7)[None] * 2),
    ],
)
def test_what_a_model_would_read_beside_the_tokens_is_refused(family, field, value):
    with pytest.raises(SpectraError, match="decoded from token ids alone") as error:
        ours(model_of(family), **{field: value})
    assert error.value.field == field


def test_the_usual_places_are_no_places_of_ones_own():
    model, places = model_of("gpt2"), torch.arange(7)[None]
    assert torch.equal(ours(model, position_ids=places), stock(model, position_ids=places))


def model_with_images():
    torch.manual_seed(0)
    vision = {
        "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
        "image_size": 16, "patch_size": 4,
    }  # fmt: skip
    text = make("gemma3").config.to_dict()
    config = Gemma3Config(
        text_config=text, vision_config=vision, mm_tokens_per_image=4, image_token_index=60, boi_token_index=61,
        eoi_token_index=62, initializer_range=0.3,
    )  # fmt: skip
    model = Gemma3ForConditionalGeneration(config).eval()
    model.generation_config.pad_token_id = 0
    return model


def test_images_are_refused_and_text_alone_is_not():
    model, image = model_with_images(), torch.randn(1, 3, 16, 16)
    ids = torch.tensor([[5, 61, 60, 60, 60, 60, 62, 7, 8]])
    options = {"attention_mask": torch.ones_like(ids), "max_new_tokens": 9, "do_sample": False}
    seen = {"pixel_values": image, "token_type_ids": (ids == 60).long()}
    assert model.generate(ids, **options, **seen).shape == (1, 18)
    with pytest.raises(SpectraError, match="decoded from token ids alone"):
        model.generate(ids, custom_generate=spectra.generate, **options, **seen)
    options |= {"token_type_ids": torch.zeros_like(ids)}
    ids = ids % 60
    truth = model.generate(ids, **options)
    assert torch.equal(model.generate(ids, custom_generate=spectra.generate, **options), truth)


@pytest.mark.parametrize(
    ("name", "value"),
    [("drafts", 5), ("drafts", [5]), ("drafts", None), ("datastores", 5), ("remember", 5), ("remember", " "),
     ("remember", "a\0b"), ("estimates", 5), ("estimates", " ")],
)  # fmt: skip
def test_what_is_no_path_is_refused_by_its_name(name, value):
    with pytest.raises(SpectraError, match=rf"^{name}: .*; give "):
        ours(model_of("llama"), **{name: value})


@pytest.mark.parametrize("value", [5, "gpt2"])
def test_a_tokenizer_that_is_none_is_named(value):
    with pytest.raises(SpectraError, match=r"^tokenizer: a (int|str) is no tokenizer; give "):
        ours(model_of("llama"), partial(spectra.generate, tokenizer=value))


class Halving(DynamicCache):
    """Keeps other keys than the model computed."""

    def update(self, key_states, value_states, *args, **options):
        return super().update(key_states / 2, value_states, *args, **options)


def test_a_cache_of_ones_own_is_refused_and_an_empty_one_of_transformers_is_not():
    model = model_of("llama", torch.float32)
    (name,) = {"cache", "past_key_values"} & set(inspect.signature(type(model).forward).parameters)
    with pytest.raises(SpectraError, match=f"{name}: Halving may hold other numbers"):
        ours(model, **{name: Halving()})
    assert torch.equal(ours(model, **{name: DynamicCache()}), stock(model))


def test_inputs_that_a_model_prepares_in_its_own_way_are_refused():
    """The text was that of a model without them."""

    class Own(LlamaForCausalLM):
        change = staticmethod(lambda inputs: None)

        def prepare_inputs_for_generation(self, input_ids, **kwargs):
            inputs = super().prepare_inputs_for_generation(input_ids, **kwargs)
            self.change(inputs)
            return inputs

    base = make("llama")
    model = Own(base.config).eval()
    model.load_state_dict(base.state_dict())
    model.generation_config.pad_token_id = 0
    assert torch.equal(ours(model), stock(base))
    changes = {
        "input_ids": lambda inputs: inputs.update(input_ids=inputs["input_ids"].flip(1)),
        "position_ids": lambda inputs: inputs.update(position_ids=3 * torch.arange(7)[None]),
        "inputs_embeds": lambda inputs: inputs.update(inputs_embeds=torch.zeros(1, 7, 48)),
    }
    for name, change in changes.items():
        model.change = change
        with pytest.raises(SpectraError, match=f"model: its own prepare_inputs_for_generation makes {name} of its own"):
            ours(model)


def test_models_made_of_one_config_take_turns(monkeypatch, tmp_path):
    """A session sets the attention in its model's config, which is the other model's too."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    one = make("llama")
    other = LlamaForCausalLM(one.config).eval()
    assert other.config is one.config
    first = wrap_model(one, step="eager", numerics="exact")
    second = wrap_model(other, step="eager", numerics="exact")
    session = first.start([1, 2, 3], 4, 4, Sampling())
    with pytest.raises(TargetBusyError):
        second.start([1, 2, 3], 4, 4, Sampling())
    session.close()
    second.start([1, 2, 3], 4, 4, Sampling()).close()
    assert one.config._attn_implementation == "sdpa"


def test_a_plan_is_of_the_functions_that_a_program_put_into_a_model(monkeypatch, tmp_path):
    """A forward that reads no mask was given trees, as the same model without it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def wrap(model):
        own = model.forward

        def forward(input_ids, position_ids=None, attention_mask=None, **options):
            return own(input_ids, position_ids=position_ids, **options)

        model.forward = forward
        return model

    assert wrap_model(make("llama"), step="eager", numerics="fast").trees
    assert not wrap_model(wrap(make("llama")), step="eager", numerics="fast").trees
    model = make("llama")
    assert wrap_model(model, step="eager", numerics="fast").trees
    assert not wrap_model(wrap(model), step="eager", numerics="fast").trees
    assert len(list(tmp_path.glob("spectra/plans/*.json"))) == 1


def test_steps_in_32_bits_stay_so_inside_autocast():
    """Rows of 16 bits are rounded by how many there are, and guesses changed the text."""
    target = target_of(make("llama"))
    with Probe(target, [1, 2, 3], 4) as session, torch.inference_mode():
        want = target.forward(session.cache, [3], [[0]], [0])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(target.forward(session.cache, [3], [[0]], [0]), want)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_is_measured_inside_autocast_as_outside(family):
    """It was refused, as giving other logits from a cache: those of steps had 32 bits, those beside them 16."""
    target = target_of(make(family))
    with torch.autocast("cpu", torch.bfloat16):
        measure_execution(target, "auto")
    assert target.trees


def test_a_model_of_mixed_numbers_runs_inside_autocast():
    """As programs keep embeddings in 32 bits; outside it cannot run."""
    model = make("llama").bfloat16()
    model.get_input_embeddings().float()
    target = target_of(model)
    with torch.autocast("cpu", torch.bfloat16):
        measure_execution(target, "auto")
