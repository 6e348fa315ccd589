"""What must be known of a model before it is trusted with trees: measured on the model itself, not looked up.

Three questions: does a tree forward agree with one sequential forward a path (else only chains, else refuse); which
row counts give the same bits (exact numerics); what does a step of q query tokens cost.
"""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import torch

from spectra.budget.step_cost import StepCost
from spectra.errors import SpectraError
from spectra.settings import Sampling
from spectra.target.cache import SlabCache
from spectra.target.execution_plan import Plan
from spectra.target.huggingface import HuggingFaceTarget
from spectra.target.kernels import LADDER, equal_pairs, kernel_of, sample_layers, slots_agree
from spectra.target.session import HuggingFaceSession, synchronize

COST_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
COST_CONTEXT = 256
SMALL = 16
USEFUL = 32  # a set of row counts that ends below this is a last resort, however small its smallest is
CHAIN = (-1, 0, 1, 2)
PARENTS = (-1, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 3)  # far apart by slot, close by position


def measure_plan(target: HuggingFaceTarget, numerics: str) -> Plan:
    """The plan for "auto", "exact" or "fast". Raises SpectraError for an exact that cannot be had."""
    half = target.dtype in (torch.bfloat16, torch.float16)
    want = numerics == "exact" or (numerics == "auto" and half)
    target.plan = Plan()
    try:
        trees = agrees(target, PARENTS)
    except SpectraError:  # it may take no such mask at all, and still do chains
        trees = False
    if not trees and not agrees(target, CHAIN):
        raise SpectraError(
            "model", f"{target.name} gives other logits from a cache than in one pass; it cannot be decoded here"
        )
    if want:
        target.plan, why = measure_exact(target)
        if why:
            if numerics == "exact":
                raise SpectraError("numerics", f"exact cannot be had: {why}; use auto or fast")
            target.plan = Plan(trees=trees, note=f"numerics: fast, because exact cannot be had: {why}")
    target.plan = dataclasses.replace(target.plan, trees=trees)
    if target.packing and not target.plan.exact:
        target.plan = measure_fast(target)
    return dataclasses.replace(target.plan, cost=measure_cost(target))


def measure_exact(target: HuggingFaceTarget) -> tuple[Plan, str]:
    """(exact plan, "") or (fast plan, why not)."""
    if target.device.type == "mps":
        return Plan(), "this device has no float64"
    for name in ("num_local_experts", "num_experts", "n_routed_experts"):
        if (getattr(target.config, name, None) or 0) > 1:
            return Plan(), "rows of a mixture of experts depend on their neighbours"
    target.plan = Plan("exact", LADDER)
    try:
        if target.plan.exact and not agrees(target, PARENTS):
            return Plan(), "exact attention does not agree with this model's own"
        buckets = safe_buckets(target)
    except SpectraError as error:
        return Plan(), str(error)
    if not buckets:
        return Plan(), "no two row counts give the same bits here"
    if target.dtype.itemsize > 2:  # float64 sums are exact enough for 16-bit results only
        return Plan("exact", buckets), ""
    arithmetics = (False, True) if slots_agree(target) else (False,)
    plans = [Plan("exact", buckets, wide=wide) for wide in arithmetics]
    target.plan = min(plans, key=lambda plan: time_step(target, plan, 8))
    return dataclasses.replace(target.plan, buckets=worthwhile(target, buckets)), ""


def measure_fast(target: HuggingFaceTarget) -> Plan:
    """Fast numerics with packed weights: the quicker of stock attention and `wide` in float32, and counts that pay."""
    stock = target.plan
    target.plan = dataclasses.replace(stock, wide=True)
    try:
        plans = [target.plan, stock] if agrees(target, PARENTS if stock.trees else CHAIN) else [stock]
    except SpectraError:  # a setting that our attention does not know
        plans = [stock]
    target.plan = min(plans, key=lambda plan: time_step(target, plan, 8))
    return dataclasses.replace(target.plan, buckets=worthwhile(target, range(1, SMALL + 1)))


def worthwhile(target: HuggingFaceTarget, buckets: Sequence[int]) -> tuple[int, ...]:
    """`buckets` without small ones that take longer than a larger one: kernels have favourite row counts."""
    few = [b for b in buckets if b <= SMALL]
    seconds = time_sizes(target, few)
    dear = {b for b in few if any(seconds[c] < 0.97 * seconds[b] for c in few if c > b)}
    return tuple(b for b in buckets if b not in dear)


def agrees(target: HuggingFaceTarget, parents: Sequence[int]) -> bool:
    """True when the logits of this tree agree with sequential forwards of its paths, by the stock implementation."""
    tokens = probe_tokens(target, 12 + len(parents) - 1)
    prefix, nodes = tokens[:11], tokens[11:]
    chains: list[list[int]] = []
    for node, parent in enumerate(parents):
        chains.append([*(chains[parent] if parent >= 0 else []), node])
    try:
        with torch.inference_mode():
            truth = torch.stack([_stock(target, [*prefix, *(nodes[i] for i in chain)]) for chain in chains])
            flat = torch.stack([_stock(target, [*prefix, *nodes[: i + 1]]) for i in range(len(nodes))])
            got = _tree_logits(target, prefix, nodes, chains)
    except SpectraError:
        raise
    except Exception as error:  # a model family we have never seen may fail in any way: say which, not how
        problem = f"{target.name} cannot run on a key-value cache of ours ({type(error).__name__}: {error})"
        raise SpectraError("model", f"{problem}; use another causal language model") from error
    scale = float(truth.std()) or 1.0
    off, wrong = (float((x.float() - truth).abs().max()) / scale for x in (got, flat))
    half = target.dtype in (torch.bfloat16, torch.float16)
    return off <= (max(0.05, 0.2 * wrong if len({*parents}) < len(parents) else 0.0) if half else 1e-3)


def safe_buckets(target: HuggingFaceTarget) -> tuple[int, ...]:
    """Row counts of which any two give bitwise equal rows; () when there are no two.

    Two tests, both must agree. Matrix kernels alone, on numbers that tell a different order of adding at once. Then
    whole forwards, for everything between the kernels.
    """
    pairs = {(a, b) for a in LADDER for b in LADDER if a <= b}
    with torch.inference_mode():
        for layer in sample_layers(target):
            function, rows = kernel_of(layer, target.dtype, packed=target.packing is not None)
            pairs &= equal_pairs(function, rows, covered=16)
        context = probe_tokens(target, 151)
        star = probe_tokens(target, LADDER[-1])
        target.plan = Plan("exact", tuple(range(1, LADDER[-1] + 1)))
        with Probe(target, context, LADDER[-1]) as session:

            def whole(tokens: torch.Tensor) -> torch.Tensor:
                chains = [[row] for row in range(len(tokens))]  # all at one position, each blind to the others
                return target.forward(session.cache, tokens.tolist(), chains, range(len(tokens)))

            pairs &= equal_pairs(whole, torch.tensor(star), covered=16)
    groups = [tuple(b for b in LADDER if (min(a, b), max(a, b)) in pairs) for a in LADDER]
    safe = [g for g in groups if len(g) > 1 and all((a, b) in pairs for a in g for b in g if a <= b)]
    return min(safe, key=lambda g: (g[-1] < USEFUL, g[0], -len(g)), default=())


def refresh_cost(target: HuggingFaceTarget) -> Plan | None:
    """A new plan when the remembered step cost was taken on a busy machine: a step is clearly faster today."""
    plan = target.plan
    if time_step(target, plan, 1) > 0.75 * plan.cost.seconds(1):
        return None
    return dataclasses.replace(plan, cost=measure_cost(target))


def time_step(target: HuggingFaceTarget, plan: Plan, size: int) -> float:
    """Seconds of a step of `size` query tokens under `plan`."""
    target.plan = plan
    return measure_cost(target, (size,)).seconds(size)


def measure_cost(
    target: HuggingFaceTarget, sizes: Sequence[int] = COST_SIZES, most: int = 12, *, context: int = COST_CONTEXT
) -> StepCost:
    """T(q) in seconds at a context of `context` tokens (less where the model's own is short)."""
    sizes = [q for q in sizes if not target.plan.exact or q <= target.plan.buckets[-1]]
    seconds = time_sizes(target, sizes, most, context=context)
    times = [seconds[size] for size in sizes]
    return StepCost(tuple((size, min(times[i:])) for i, size in enumerate(sizes)))  # a narrower step is no dearer


def time_sizes(
    target: HuggingFaceTarget, sizes: Sequence[int], most: int = 12, *, context: int = COST_CONTEXT
) -> dict[int, float]:
    """Seconds of a step of each size.

    Minima: what the device can do, not what it was disturbed by. All sizes in turn, at least three times, until a
    round improves none of them by 3 %, at most `most` rounds.
    """
    prefix = probe_tokens(target, max(2, min(context, target.context - sizes[-1] - 1)))
    fit = target.plan.fit
    best = dict.fromkeys(map(fit, sizes), float("inf"))
    star = probe_tokens(target, max(best))
    with Probe(target, prefix, max(best)) as session, torch.inference_mode():
        for turn in range(most):
            improved = False
            for size in best:
                chains = [[0]] + [[0, i] if target.trees else list(range(i + 1)) for i in range(1, size)]
                began = time.perf_counter()
                target.forward(session.cache, [prefix[-1], *star[: size - 1]], chains, range(size)).argmax(-1).tolist()
                seconds = time.perf_counter() - began
                if turn:  # the first round warms up
                    improved |= seconds < 0.97 * best[size]
                    best[size] = min(best[size], seconds)
            if turn >= 3 and not improved:
                break
    return {size: best[fit(size)] for size in sizes}


def probe_tokens(target: HuggingFaceTarget, count: int) -> list[int]:
    """Random but fixed token ids."""
    vocabulary = target.model.get_input_embeddings().num_embeddings
    return torch.randint(0, vocabulary, (count,), generator=torch.Generator().manual_seed(count)).tolist()


class Probe:
    """A session without sampling, closed on the way out."""

    def __init__(self, target: HuggingFaceTarget, prompt: list[int], widest: int) -> None:
        self.session: HuggingFaceSession = target.start(prompt, 1, widest, Sampling())

    def __enter__(self) -> HuggingFaceSession:
        return self.session

    def __exit__(self, *_: Any) -> None:
        self.session.close()


def _stock(target: HuggingFaceTarget, tokens: list[int]) -> torch.Tensor:
    """Logits [vocabulary] after `tokens`, no cache, the model as it comes."""
    ids = torch.tensor([tokens], device=target.device)
    logits: torch.Tensor = target.model(ids, use_cache=False).logits[0, -1]
    return logits.float()


def _tree_logits(
    target: HuggingFaceTarget, prefix: list[int], nodes: list[int], chains: list[list[int]]
) -> torch.Tensor:
    with Probe(target, [*prefix, nodes[0]], len(nodes)) as session:
        synchronize(target.device)
        cache: SlabCache = session.cache
        return target.forward(cache, nodes, chains, range(len(nodes))).float()
