"""Exact steps as on a GPU: no kernel that is chosen by shape decides how a token is rounded."""

import random

import pytest
import torch
from batches import alone
from drafting import Scripted, decode_by, method_of
from hostile import Hostile
from reference import plain
from tiny import COST, VOCABULARY, make

from spectra import Limits, Request, Sampling, decode_many
from spectra.errors import SpectraError
from spectra.target import attention
from spectra.target.execution_plan import ExecutionPlan
from spectra.target.fixed_order.by_position import attend_by_position
from spectra.target.huggingface import Execution, HuggingFaceTarget
from spectra.target.joint import joint_forward
from spectra.target.preflight import PARENTS, agrees, choose_chunk, measure_execution, neighbours_agree, path_agrees

pytest.importorskip("triton", reason="no Triton; `make test` brings it")
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU the kernels run there: test_on_gpu.py")

PLAN = ExecutionPlan("exact", chunk=8, cost=COST)


def by_position(query, key, value, scaling, window, metadata):
    return attend_by_position(query, key, value, scaling, window, metadata.table(query.device))


class AsOnGpu(HuggingFaceTarget):
    """Its attention is the one that a GPU has."""

    def forward_pass(self, *args, **options):
        return super().forward_pass(*args, **options, attend=by_position)

    def forward_together(self, parts):
        if len(parts) == 1:
            return super().forward_together(parts)
        return joint_forward(self, parts, chunk=self.plan.chunk, attend=by_position)


def target_of(family, kind=AsOnGpu):
    """Few heads, for every row and key head is a program of the interpreter."""
    attention.register()
    heads = {"n_head": 2} if family == "gpt2" else {"num_attention_heads": 2, "num_key_value_heads": 1}
    return kind(make(family, **heads), plan=PLAN)


@pytest.mark.parametrize(
    "family", ["llama", *(pytest.param(one, marks=pytest.mark.all_cases) for one in ("gemma3", "gpt2"))]
)
def test_no_shape_of_a_product_decides_how_a_token_is_rounded(family):
    target = target_of(family)
    assert agrees(target, PARENTS)
    with Hostile():
        assert path_agrees(target)
        assert neighbours_agree(target, 20, 11)


def test_attention_by_products_depends_on_where_a_block_stands():
    """What a GPU's kernels were seen to do: hence kernels of our own there, and the check before a model is used."""
    target = target_of("llama", HuggingFaceTarget)
    assert path_agrees(target)
    with Hostile():
        assert neighbours_agree(target, 20, 11)
        assert not path_agrees(target)


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.8, seed=3)], ids=["greedy", "sampled"])
def test_the_tokens_are_those_of_plain_decoding(sampling):
    target, dice = target_of("llama"), random.Random(5)
    prompt = [dice.randrange(VOCABULARY) for _ in range(57)]
    truth, _ = plain(target.model, prompt, sampling, most=9)
    with Hostile():
        for kind in (None, "deep"):
            drafter = [Scripted(kind, truth, len(prompt), vocabulary=VOCABULARY)] if kind else []
            steps = decode_by(target, prompt, method_of(drafter, 12), sampling=sampling, limits=Limits(9))
            assert [token for step in steps for token in step.tokens] == truth


def test_many_at_once_write_what_each_writes_alone():
    target, dice = target_of("qwen2"), random.Random(6)
    truth = [dice.randrange(VOCABULARY) for _ in range(9)]

    def requests():
        for count in (3, 61):
            prompt = truth[:count] if count < 9 else truth * 7
            drafter = Scripted("chaos", truth, len(prompt), vocabulary=VOCABULARY)
            yield Request(prompt, method_of([drafter], 6), Sampling(), Limits(4))

    with Hostile():
        alone_each = [alone(target, request) for request in requests()]
        got = [[] for _ in alone_each]
        for number, step in decode_many(target, requests(), at_once=2):
            got[number] += step.tokens
    assert got == alone_each


class Failing:
    """In the place of a kernel, where Triton finds no C compiler."""

    def __getitem__(self, grid):
        raise RuntimeError("Failed to find C compiler. Please specify via CC; or so\nand more")


def test_where_the_kernel_does_not_run_exact_numerics_are_refused_with_the_reason(monkeypatch):
    target = target_of("llama")
    monkeypatch.setattr("spectra.target.fixed_order.kernels.attend_part", Failing())
    why = choose_chunk(target)
    assert why.startswith("the kernel of exact attention does not run here (Failed to find C compiler.")
    assert "\n" not in why
    target.use(Execution())
    measure_execution(target, "auto")  # fp32: fast anyway
    with pytest.raises(SpectraError, match="numerics: exact is not possible: the kernel of exact attention"):
        measure_execution(target, "exact")
