"""Random batches of every method, and targets that take every way through a step."""

import random

import torch
from compiled import needs_native
from drafting import KINDS, Scripted, TextMemory, TopTextStore, decode_by, method_of
from tiny import COST, DEAR, FREE, VOCABULARY, make, model_of, target_of

from spectra import Limits, Request, Sampling
from spectra.methods.presets import METHODS, make_method
from spectra.methods.resources import Resources
from spectra.target.draft_model import DraftModel
from spectra.target.execution_plan import ExecutionPlan
from spectra.target.load import wrap_model

WAYS = ("native bf16", "native fp32", "torch exact", "torch fast")


def target_by(way, family, known):
    """known: targets made before. Skips the test where there is no native step."""
    if (way, family) not in known:
        kind = torch.bfloat16 if way.endswith("bf16") else torch.float32
        if way.startswith("native"):
            needs_native()
            known[way, family] = wrap_model(make(family).to(kind), numerics="exact", step="native")
        else:
            plan = ExecutionPlan("exact", chunk=8, cost=COST) if way == "torch exact" else None
            known[way, family] = target_of(model_of(family, kind), plan)
    return known[way, family]


def random_request(dice, target, prompts):
    """(makes a fresh request each time, what to call it)."""
    prompt = list(dice.choice(prompts))[: dice.choice((1, 7, 80, 150, 150))]
    prompt += [dice.randrange(VOCABULARY) for _ in range(dice.choice((0, 0, 1, 9)))]
    temperature = dice.choice((0.0, 0.0, 0.8))
    penalty = dice.choice((1.0, 1.0, 1.3))
    sampling = Sampling(temperature=temperature, repetition_penalty=penalty, seed=dice.randrange(2**40))
    eos = frozenset(dice.sample(range(VOCABULARY), dice.choice((0, 1, 4))))
    limits = Limits(dice.choice((1, 3, 12, 30)), eos)
    preset, nodes = dice.choice(list(METHODS)), dice.choice((None, None, 1, 6, 30))
    kind, seed, cost = dice.choice(KINDS), dice.random(), dice.choice((None, COST, FREE))
    noise = [dice.randrange(VOCABULARY) for _ in range(40)]

    def fresh():
        if seed < 0.3:
            drafter = Scripted(kind, noise, len(prompt), vocabulary=VOCABULARY, eos=eos, seed=seed)
            method = method_of([drafter], 16, cost)
        else:
            stores = [TopTextStore([*prompt, *noise], refined=kind) for kind in (True, False)]
            resources = Resources(stores, DRAFTS, TextMemory([*noise, *prompt]))
            together, planned = (16, DEAR) if seed > 0.8 else (1, None)
            method = make_method(
                preset, target, resources, nodes=nodes, sampling=sampling, step_cost=planned, together=together
            )
        return Request(prompt, method, sampling, limits)

    return fresh, preset if seed >= 0.3 else kind


def DRAFTS():
    return [DraftModel(target_of(model_of("llama", torch.float32, 1)))]


def alone(target, request):
    """The tokens of one request by itself."""
    steps = decode_by(target, request.prompt, request.method, sampling=request.sampling, limits=request.limits)
    return [token for step in steps for token in step.tokens]


def random_prompts(dice):
    """Some begin alike."""
    first = [dice.randrange(VOCABULARY) for _ in range(140)]
    return [[*first, *(dice.randrange(VOCABULARY) for _ in range(10))] for _ in range(2)] + [first[::-1]]


def dice_of(number):
    return random.Random(f"batch {number}")
