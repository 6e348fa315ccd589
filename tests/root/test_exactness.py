"""Speculative output equals plain decoding's: random models, prompts, sampling, drafters and limits, token for token.

150 cases in fp64, 2,000 with `--all-cases`; a tenth of them in fp32 too.
"""

import random
from dataclasses import fields

import pytest
import torch
from drafting import KINDS, Scripted, TextMemory, TopTextStore, decode_by, method_of
from reference import plain
from tiny import COST, FAMILIES, FREE, VOCABULARY, make, model_of, target_of

from spectra import Limits, Sampling, decode
from spectra.drafters.anpd import Anpd
from spectra.drafters.automaton import SuffixAutomaton
from spectra.drafters.copies import Copies
from spectra.drafters.core import CoreSettings, SpectraCore
from spectra.drafters.lookahead import Lookahead
from spectra.drafters.near_certain import NearCertain, table_of
from spectra.drafters.prompt_lookup import PromptLookup
from spectra.drafters.recycling import Recycling
from spectra.methods.presets import METHODS, make_method, redraws
from spectra.methods.resources import Resources
from spectra.target.draft_model import DraftModel

CHUNKS = 10
CLOSE = 1e-4


def random_sampling(dice):
    if dice.random() < 0.4:
        return Sampling(repetition_penalty=dice.choice((1.0, 1.0, 1.3)))
    return Sampling(
        temperature=dice.choice((0.3, 0.7, 1.0, 1.6)),
        top_k=dice.choice((0, 0, 3, 10)),
        top_p=dice.choice((1.0, 1.0, 0.7, 0.95)),
        min_p=dice.choice((0.0, 0.0, 0.05, 0.3)),
        repetition_penalty=dice.choice((1.0, 1.0, 0.8, 1.3)),
        seed=dice.randrange(2**63),
    )


CHOICES = {
    "order": (2, 3, 4, 5),
    "rows": (0, 1, 3, 7, 15),
    "guesses": (None, 1, 4, 15),
    "capacity": (1, 4, 15),
    "refine": (0.0, 0.1, 0.5, 1.0),
    "pool_start": ("random", "windows"),
    "layout": ("rows", "columns"),
    "chain": (1, 4, 12),
}


def random_core(dice):
    """Any value of every setting; a new setting that is no switch needs its choices here."""
    settings = {}
    for field in fields(CoreSettings):
        settings[field.name] = dice.choice((False, True) if isinstance(field.default, bool) else CHOICES[field.name])
    return CoreSettings(**settings)


def random_baselines(dice, eos, stores):
    """One to three drafters of other methods in one tree, their order and sizes drawn."""
    banned, small = dice.choice(((), eos)), dice.choice((1, 2, 3, 5))
    make = {
        "anpd": lambda: Anpd(order=small + 1, length=dice.choice((1, 5)), banned=banned),
        "prompt-lookup": lambda: PromptLookup(order=small, length=dice.choice((1, 10)), banned=banned),
        "automaton": lambda: SuffixAutomaton(ranks=small, depth=dice.choice((1, 4, 16)), banned=banned),
        "copies": lambda: Copies(depth=dice.choice((1, 12)), banned=banned),
        "near-certain": lambda: NearCertain(table_of(stores), depth=dice.choice((1, 8)), banned=banned),
        "recycling": lambda: Recycling(nodes=dice.choice((1, 9, 80)), ranks=small, banned=banned),
        "lookahead": lambda: Lookahead(
            window=dice.choice((0, 1, 2, 7)), order=small + 1, guesses=small, banned=banned, seed=dice.randrange(99)
        ),
    }
    names = dice.sample(list(make), dice.choice((1, 1, 2, 3)))
    return [make[name]() for name in names], names


def random_method(dice, target, truth, prompt, sampling, eos, stores):
    """(a method or preset name, nodes, what to call it)."""
    cost = dice.choice((None, COST, FREE))
    draw = dice.random()
    if draw < 0.25:
        presets = [name for name in METHODS if not redraws(name, sampling)]
        return dice.choice(presets), dice.choice((None, None, 1, 5, 30)), "preset"
    if draw < 0.5:
        drafters, names = random_baselines(dice, eos, stores)
        return method_of(drafters, dice.choice((4, 30, 160)), cost), None, names
    if draw < 0.75:
        settings = random_core(dice)
        drafter = SpectraCore(settings, banned=dice.choice(((), eos)), seed=dice.randrange(99))
        most = 2 * settings.rows * (settings.order - 1) + dice.choice((1, 8, 64))
        return method_of([drafter], most, cost), None, settings
    kinds = dice.sample(KINDS, dice.choice((1, 1, 2)))
    drafters = [Scripted(k, truth, len(prompt), vocabulary=VOCABULARY, eos=eos, seed=dice.random()) for k in kinds]
    return method_of(drafters, dice.choice((2, 16, 128)), None), None, kinds


def run(target, prompt, sampling, limits, method, nodes, resources=None):
    steps = decode_by(target, prompt, method, sampling=sampling, limits=limits, nodes=nodes, resources=resources)
    steps = list(steps)
    return [token for step in steps for token in step.tokens], steps


def check_case(number):
    dice = random.Random(number)
    family = dice.choice(FAMILIES)
    prompt = [dice.randrange(VOCABULARY) for _ in range(dice.choice((1, 2, 5, 12, 40)))]
    sampling = random_sampling(dice)
    eos = frozenset(dice.sample(range(VOCABULARY), dice.choice((0, 1, 3, 8))))
    most = dice.choice((1, 2, 9, 24, 40))
    recipe = dice.randrange(2**32)
    for dtype in (torch.float64, torch.float32) if number % 10 == 0 else (torch.float64,):
        model = model_of(family, dtype)
        truth, margins = plain(model, prompt, sampling, most=most, eos=eos)
        target = target_of(model)
        noise = [dice.randrange(VOCABULARY) for _ in range(20)]
        stores = [TopTextStore([*prompt, *truth[: most // 2], *noise], refined=kind) for kind in (True, False)]
        drafts = [DraftModel(target_of(model_of(kind, dtype, 1))) for kind in dice.sample(FAMILIES, 2)]
        method, nodes, label = random_method(random.Random(recipe), target, truth, prompt, sampling, eos, stores)
        resources = Resources(stores, drafts, TextMemory([*noise, *prompt, *truth[most // 3 :]]))
        got, steps = run(target, prompt, sampling, Limits(most, eos), method, nodes, resources)
        if got != truth:
            at = next(
                (i for i, (a, b) in enumerate(zip(got, truth, strict=False)) if a != b), min(len(got), len(truth))
            )
            close = dtype == torch.float32 and at < len(margins) and margins[at] <= CLOSE
            assert close, f"case {number}: {family} {dtype} {sampling} {label}: token {at}: {got} is not {truth}"
        assert steps[-1].finish == ("eos" if got[-1] in eos else "length")
        if sampling.greedy and sampling.repetition_penalty == 1 and dtype == torch.float64:
            stock = model.generate(
                torch.tensor([prompt]),
                attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                max_new_tokens=most,
                do_sample=False,
                eos_token_id=sorted(eos) or None,
            )
            assert got == stock[0, len(prompt) :].tolist(), f"case {number}: stock generate"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_cases(chunk, cases):
    for case in range(chunk, cases(100, 2000), CHUNKS):
        check_case(case)


def test_the_tiny_models_say_more_than_one_thing():
    """A model that repeats itself would make every test here too easy."""
    for family in FAMILIES:
        said = set()
        for start in range(8):
            tokens, _ = plain(model_of(family), [start, start + 9], Sampling(), most=16)
            said.update(tokens)
        assert len(said) >= 12, f"{family}: {said}"


@pytest.mark.parametrize("method", ["token-recycling", "spectra", "spectra-core", "spectra-paper-core", "lookahead"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_vocabulary_smaller_than_what_a_method_keeps_of_it(method, temperature):
    target = target_of(make("llama", vocab_size=5))
    sampling, limits = Sampling(temperature, seed=1), Limits(12)

    def answer(name):
        made = make_method(name, target, sampling=sampling)
        steps = decode(target, [1, 2, 3], made, sampling=sampling, limits=limits)
        return [token for step in steps for token in step.tokens]

    assert answer(method) == answer("autoregressive")
