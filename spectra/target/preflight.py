"""What must be known of a model before it is trusted with trees: measured on the model itself, not looked up.

Three questions: does a tree forward agree with one sequential forward a path (else only chains, else refuse); how many
rows a pass of exact steps has; what does a step of q query tokens cost.
"""

import dataclasses
import logging
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from spectra.budget.step_cost import StepCost
from spectra.errors import SpectraError
from spectra.settings import Sampling
from spectra.target.attention import of_ones_own
from spectra.target.attention_metadata import BLOCK
from spectra.target.cache import SlabCache
from spectra.target.device_map import is_on_disk
from spectra.target.execution_plan import ExecutionPlan
from spectra.target.fixed_order.by_position import obstacle as fixed_order_obstacle
from spectra.target.huggingface import Execution, HuggingFaceTarget
from spectra.target.joint import Part
from spectra.target.own_numbers import without_autocast
from spectra.target.parameter_state import odd_numbers
from spectra.target.quantized import quantized_by
from spectra.target.session import HuggingFaceSession, synchronize

log = logging.getLogger("spectra")
COST_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
COST_BLOCKS = 3
"""Row blocks of the native step whose ends are measured too."""
COST_CONTEXT = 256
COST_SECONDS = 20.0
"""Of measuring T(q) before a model is used."""
REFRESH_SIZES = (1, 8, 16, 32)
REFRESH_SECONDS = 4.0
FASTER = 0.9
"""T(q) is measured again where a step takes at most this part of what is remembered."""
CHUNKS = (4, 8, 16, 32, 64)
FREE = 1.1
WIDE = 37
CHAIN = (-1, 0, 1, 2)
PARENTS = (-1, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 3)  # far apart by slot, close by position
PREFIX = 11  # tokens before a tree that is compared
DEPTH = 10  # tokens of a path that is compared


def measure_execution(target: HuggingFaceTarget, numerics: str) -> None:
    """Give the target the execution for "auto", "exact" or "fast". Raises SpectraError for an exact out of reach.

    Steps by our library, where the target has them, are exact whatever was asked for; torch computes where they do not
    agree with the model's own.
    """
    if target.context < (least := PREFIX + len(PARENTS)):
        raise SpectraError("model", f"its context is {target.context} tokens; give one of at least {least}")
    if is_on_disk(target.model):
        log.warning("%s: it is measured now, by about a hundred such passes", target.name)
    native = target.native
    with target.using(Execution()):
        trees = stock_trees(target) if native is None or native.checkable else True
    note = ""
    if native is not None:
        target.use(Execution(ExecutionPlan("exact", "native", trees=trees), native))
        why = objection(target, against_stock=native.checkable)
        if not why:
            add_cost(target)
            return
        if not native.checkable:
            raise SpectraError("weights", f"{target.name}: {why}; use --weights bf16")
        note = f"step: eager, because native is not possible: {why}"
    target.use(Execution(ExecutionPlan(trees=trees, note=note)))
    half = target.dtype in (torch.bfloat16, torch.float16)
    if numerics == "exact" or (numerics == "auto" and half):
        why = choose_chunk(target)
        if why and numerics == "exact":
            raise SpectraError("numerics", f"exact is not possible: {why}; use auto or fast")
        if why:
            note = "; ".join(filter(None, (note, f"numerics: fast, because exact is not possible: {why}")))
            target.use(Execution(ExecutionPlan(trees=trees, note=note)))
    add_cost(target)


def add_cost(target: HuggingFaceTarget) -> None:
    """Measure T(q) and put it into the target's plan."""
    execution = target.execution
    plan = dataclasses.replace(execution.plan, cost=measure_cost(target, cost_sizes(target), limit=COST_SECONDS))
    target.use(dataclasses.replace(execution, plan=plan))


def cost_sizes(target: HuggingFaceTarget) -> Sequence[int]:
    """Row counts whose steps are timed before a model is used."""
    if target.native is None:
        return COST_SIZES
    library = target.native.library
    ends = [library.row_block * n for n in range(1, COST_BLOCKS + 1)]
    if library.few_rows and any(matrix.quantised for matrix in target.native.steps.matrices):
        ends.append(library.few_rows)
    return sorted({*COST_SIZES, *ends, *(end + 1 for end in ends)})


def stock_trees(target: HuggingFaceTarget) -> bool:
    """Whether the model scores trees from our cache. Raises SpectraError where it does not even score chains."""
    try:
        if agrees(target, PARENTS):
            return True
    except SpectraError:  # it may take no such mask at all, and still do chains
        pass
    if not agrees(target, CHAIN):
        why = named_numbers(target) or "gives other logits from a cache than in one pass"
        raise SpectraError("model", f"{target.name} {why}; it cannot be decoded here")
    return False


def choose_chunk(target: HuggingFaceTarget) -> str:
    """Give the target the plan for exact steps by torch, in passes of one row count; or say why there is none.

    The count is the largest whose pass takes at most `FREE` times as long as one of the smallest and whose rows agree.
    """
    if target.device.type == "mps":
        return "this device has no float64"
    if target.mixture:
        return "rows of a mixture of experts depend on their neighbours"
    if getattr(target.config, "kv_lora_rank", None):
        return "its keys are made from its cache by a product over all of it"
    if why := of_ones_own(target.model) or (fixed_order_obstacle(target.dtype) if target.device.type == "cuda" else ""):
        return why
    eager = target.plan
    plans = {rows: dataclasses.replace(eager, numerics="exact", chunk=rows) for rows in CHUNKS}
    with target.using(Execution(plans[CHUNKS[0]])):
        if why := objection(target):
            return why
    try:
        seconds = {rows: time_step(target, plan, rows) for rows, plan in plans.items()}
    except SpectraError as error:
        return reason(error)
    for rows in reversed([rows for rows in CHUNKS[1:] if seconds[rows] <= FREE * seconds[CHUNKS[0]]]):
        with target.using(Execution(plans[rows])):
            why = objection(target, against_stock=False)  # kernels are chosen by the count
        if not why:
            target.use(Execution(plans[rows]))
            return ""
    target.use(Execution(plans[CHUNKS[0]]))
    return ""


def objection(target: HuggingFaceTarget, *, against_stock: bool = True) -> str:
    """What is wrong with the exact steps of the target's plan, or ""."""
    try:
        if against_stock and not agrees(target, PARENTS):
            return named_numbers(target) or "its attention does not agree with this model's own"
        agree = rows_agree(target, rows=max(WIDE, target.plan.chunk + 8))
        return "" if agree else named_numbers(target) or "rows depend on their neighbours"
    except SpectraError as error:  # attention with a setting that ours does not know, for example
        return reason(error)


def named_numbers(target: HuggingFaceTarget) -> str:
    """What a model with damaged weights fails for, or "": nothing equals a NaN."""
    name = odd_numbers(target.model)
    return f"holds NaN or infinity in {name}" if name else ""


def reason(error: SpectraError) -> str:
    """What is wrong, without its field and its fix."""
    return str(error).partition(": ")[2].partition("; ")[0]


def rows_agree(target: HuggingFaceTarget, *, context: int = 70, rows: int = WIDE) -> bool:
    """Whether rows of a wide step have the bits of steps of one row, beside each other and below each other.

    So it is by construction; a model or a device may break it.
    """
    return neighbours_agree(target, context, rows) and path_agrees(target)


def path_agrees(target: HuggingFaceTarget) -> bool:
    """Whether a token has the same bits deep in a step and one step after the other, from one block of the context into
    the next: what is before it in the block stands in the cache in one case, and in the step in the other."""
    if target.context < BLOCK + DEPTH:
        return True
    prompt, guesses = probe_tokens(target, BLOCK - DEPTH // 2), probe_tokens(target, DEPTH)
    chains = [list(range(row + 1)) for row in range(DEPTH)]
    with Probe(target, prompt, DEPTH, new=DEPTH) as session, torch.inference_mode():
        cache = session.cache
        deep = target.forward(cache, guesses, chains, range(DEPTH)).clone()
        for row, token in enumerate(guesses):
            alone = target.forward(cache, [token], [[0]], [0])[0]
            if not torch.equal(deep[row], alone):
                return False
            cache.keep([0])
    return True


def neighbours_agree(target: HuggingFaceTarget, context: int, rows: int) -> bool:
    """Whether rows below one root have the bits of steps of one row."""
    guesses = probe_tokens(target, rows)
    prefix = probe_tokens(target, max(2, min(context, target.context - rows - 1)))
    with Probe(target, prefix, rows) as session, torch.inference_mode():
        cache = session.cache
        whole = target.forward(cache, guesses, [[row] for row in range(rows)], range(rows)).clone()
        alone = {row: target.forward(cache, [guesses[row]], [[0]], [0])[0] for row in (0, 1, 7, rows // 2, rows - 1)}
    return all(torch.equal(whole[row], logits) for row, logits in alone.items())


def agrees(target: HuggingFaceTarget, parents: Sequence[int]) -> bool:
    """True when the logits of this tree agree with sequential forwards of its paths, by the stock implementation."""
    tokens = probe_tokens(target, PREFIX + len(parents))
    prefix, nodes = tokens[:PREFIX], tokens[PREFIX:]
    chains: list[list[int]] = []
    for node, parent in enumerate(parents):
        chains.append([*(chains[parent] if parent >= 0 else []), node])
    with torch.inference_mode():
        with _failure_told(target, *_own_failure(target)):
            truth = torch.stack([_stock(target, [*prefix, *(nodes[i] for i in chain)]) for chain in chains])
            flat = torch.stack([_stock(target, [*prefix, *nodes[: i + 1]]) for i in range(len(nodes))])
        with _failure_told(target, "on a key-value cache of ours", "use another causal language model"):
            got = _tree_logits(target, prefix, nodes, chains)
    scale = float(truth.std()) or 1.0
    off, wrong = (float((x.float() - truth).abs().max()) / scale for x in (got, flat))
    if target.dtype not in (torch.bfloat16, torch.float16):
        return off <= 1e-3
    branches = len({*parents}) < len(parents)
    return off <= max(0.05, 0.2 * (wrong or 1.0) if branches else 0.0)  # 0: rows read only themselves, and round


def _own_failure(target: HuggingFaceTarget) -> tuple[str, str]:
    """What a model fails at that cannot score a text by itself, and the fix."""
    if weights := quantized_by(target.model):
        return f"by itself with its weights in {weights}", "load it in other weights, bf16 for example"
    return "by itself", "use a model that transformers runs here"


@contextmanager
def _failure_told(target: HuggingFaceTarget, how: str, fix: str) -> Iterator[None]:
    """A model family that was never seen may fail in any way: say which, not how."""
    try:
        yield
    except (SpectraError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        problem = f"{target.name} cannot run {how} ({type(error).__name__}: {error})"
        raise SpectraError("model", f"{problem}; {fix}") from error


def refresh_cost(target: HuggingFaceTarget) -> None:
    """Measure again when the remembered step cost was taken on a busy machine: steps of some width are faster today.

    By a narrow and by wide ones: what else a machine does makes it slower at some widths only, and budgets go by how
    much wider steps cost more.
    """
    kept = target.cost
    with _failure_told(target, *_own_failure(target)):  # its steps were possible when the cost was taken
        known = {queries for queries, _ in kept.table}
        sizes = [size for size in REFRESH_SIZES if size in known] or [1]
        today = time_sizes(target, sizes, limit=REFRESH_SECONDS)
    if any(seconds <= FASTER * kept.seconds(size) for size, seconds in today.items()):
        add_cost(target)


def time_step(target: HuggingFaceTarget, plan: ExecutionPlan, size: int) -> float:
    """Seconds of a step of `size` query tokens by torch under `plan`."""
    with target.using(Execution(plan)):
        return measure_cost(target, (size,)).seconds(size)


def measure_cost(
    target: HuggingFaceTarget,
    sizes: Sequence[int] = COST_SIZES,
    *,
    context: int = COST_CONTEXT,
    limit: float = math.inf,
) -> StepCost:
    """T(q) in seconds at a context of `context` tokens (less where the model's own is short). See `time_sizes`."""
    if chunk := target.plan.chunk:  # the cost rises behind every whole chunk
        edges = [chunk * n for n in (1, 2, 3, 4, 6, 8)]
        sizes = sorted({q for q in (*sizes, *edges, *(edge + 1 for edge in edges)) if q <= max(*sizes, chunk)})
    seconds = time_sizes(target, sizes, context=context, limit=limit)
    times = [seconds[size] for size in sizes]
    return StepCost(tuple((size, min(times[i:])) for i, size in enumerate(sizes)))  # a narrower step is no dearer


def time_sizes(
    target: HuggingFaceTarget,
    sizes: Sequence[int],
    max_rounds: int = 12,
    *,
    context: int = COST_CONTEXT,
    limit: float = math.inf,
) -> dict[int, float]:
    """Seconds of a step of each size. sizes: ascending.

    Minima: what the device can do, not what it was disturbed by. All sizes in turn, up and then down, for a narrow step
    right after a wide one takes longer; at least three times, until a round improves none of them by 3 %, at most
    `max_rounds` times, and no step once `limit` seconds are over: sizes that were not reached then cost as much a row
    as the largest that was.
    """
    prefix = probe_tokens(target, max(2, min(context, target.context - sizes[-1] - 1)))
    fit = target.plan.fit
    best = dict.fromkeys(map(fit, sizes), math.inf)
    first: dict[int, float] = {}
    guesses = probe_tokens(target, max(best))
    with Probe(target, prefix, max(best)) as session, torch.inference_mode(), target.one_torch_thread():
        end = time.perf_counter() + limit
        for turn in range(max_rounds):
            improved = False
            for size in reversed(best) if turn % 2 else best:
                chains = [[0]] + [[0, i] if target.trees else list(range(i + 1)) for i in range(1, size)]
                began = time.perf_counter()
                if first and began > end:
                    break
                tokens = [prefix[-1], *guesses[: size - 1]]
                target.forward_together([Part(session.cache, tokens, chains, range(size))])[0].greedy()
                seconds = time.perf_counter() - began
                if not turn:  # the first round warms up
                    first[size] = seconds
                    continue
                improved |= seconds < 0.97 * best[size]
                best[size] = min(best[size], seconds)
            if (turn >= 3 and not improved) or time.perf_counter() > end:
                break
    known = {size: first.get(size, math.inf) if seconds == math.inf else seconds for size, seconds in best.items()}
    largest = max(first)
    for size in known.keys() - first.keys():
        known[size] = known[largest] * size / largest
    return {size: known[fit(size)] for size in sizes}


def probe_tokens(target: HuggingFaceTarget, count: int) -> list[int]:
    """Random but fixed token ids."""
    return torch.randint(0, target.vocabulary, (count,), generator=torch.Generator().manual_seed(count)).tolist()


class Probe:
    """A session without sampling, closed on the way out. new: tokens that it may commit."""

    def __init__(self, target: HuggingFaceTarget, prompt: list[int], rows: int, *, new: int = 1) -> None:
        self.session: HuggingFaceSession = target.start(prompt, new, rows, Sampling())

    def __enter__(self) -> HuggingFaceSession:
        return self.session

    def __exit__(self, *_: Any) -> None:
        self.session.close()


def _stock(target: HuggingFaceTarget, tokens: list[int]) -> torch.Tensor:
    """Logits [vocabulary] after `tokens`, no cache, the model as it comes."""
    ids = torch.tensor([tokens], device=target.device)
    with without_autocast(target.model, target.device):
        logits: torch.Tensor = target.model(ids, use_cache=False).logits[0, -1]
    return logits.float()


def _tree_logits(
    target: HuggingFaceTarget, prefix: list[int], nodes: list[int], chains: list[list[int]]
) -> torch.Tensor:
    with Probe(target, [*prefix, nodes[0]], len(nodes)) as session:
        synchronize(target.device)
        cache: SlabCache = session.cache
        return target.forward(cache, nodes, chains, range(len(nodes))).float()
