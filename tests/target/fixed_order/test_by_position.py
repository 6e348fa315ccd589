"""The Triton kernels of exact attention, run by Triton's interpreter: one softmax, and the same bits on every way."""

import random
import subprocess
import sys

import pytest
import torch
from drafting import random_tree

from spectra.io.resources import package_root
from spectra.target.attention_metadata import BLOCK, RowTable, live_rows
from spectra.target.fixed_order import by_position
from spectra.target.fixed_order.by_position import PART, attend_by_position, obstacle

pytest.importorskip("triton", reason="no Triton; `make test` brings it")
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU the kernels run there: test_on_gpu.py")

SCALING = 0.21
CPU = torch.device("cpu")


def softmax_over(query, key, value, window, start, chains):
    """In float64, row by row."""
    out = torch.zeros(*query.shape[:2], value.shape[-1], dtype=torch.float64)
    group = len(query) // len(key)
    for row, chain in enumerate(chains):
        position = start + len(chain) - 1
        slots = [*range(start), *(start + node for node in chain)][max(0, position - window + 1) if window else 0 :]
        for head in range(len(query)):
            keys, values = (x[head // group, slots].double() for x in (key, value))
            out[head, row] = (SCALING * keys @ query[head, row].double()).softmax(0) @ values
    return out


def chains_of(tree):
    return [[0, *tree.path(node)] for node in range(len(tree))]


def inputs(dice, rows, slots, *, heads=6, kv_heads=2, dim=24, width=24, dtype=torch.float32):
    torch.manual_seed(dice.randrange(2**30))
    query = ((24 / dim) ** 0.5 * torch.randn(1, rows, heads, dim)).to(dtype).transpose(1, 2)[0]  # scores of one size
    return query, torch.randn(kv_heads, slots, dim).to(dtype), torch.randn(kv_heads, slots, width).to(dtype)


@pytest.mark.parametrize("window", [None, 40, pytest.param(300, marks=pytest.mark.all_cases)])
@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-6), (torch.float16, 2e-3)])
def test_a_row_is_the_softmax_over_its_path(dtype, near, window):
    dice = random.Random(f"{dtype} {window}")
    shapes = [({}, 0, 5), ({"heads": 3, "kv_heads": 3}, 63, 7), ({"dim": 40, "width": 16}, 330, 9)]
    for shape, start, count in [*shapes, ({"heads": 1, "kv_heads": 1, "dim": 130}, 290, 3)]:
        chains = chains_of(random_tree(dice, count))
        query, key, value = inputs(dice, count, start + count, dtype=dtype, **shape)
        table = RowTable.of(start, chains, CPU)
        got = attend_by_position(query, key, value, SCALING, window, table)
        assert got.dtype == dtype
        assert (got.double() - softmax_over(query, key, value, window, start, chains)).abs().max() < near


@pytest.mark.parametrize("window", [None, 70])
def test_a_token_has_its_bits_deep_in_a_step_and_as_the_root_of_one(window):
    """From one block into the next, from one part into the next, with another number of rows and slots beside it."""
    dice = random.Random(f"bits {window}")
    depth, rows = 6, 12
    for edge in (BLOCK, PART * BLOCK):
        start = edge - dice.randrange(2, depth - 1)
        query, key, value = inputs(dice, rows, edge + 2 * BLOCK)
        deep = [list(range(row + 1)) for row in range(depth)]
        spread = [[2 * node for node in chain] for chain in deep]  # other nodes stand between them
        tree = [spread[row // 2] if row % 2 == 0 else [*spread[row // 2], row] for row in range(2 * depth)]
        whole = attend_by_position(query[:, :depth], key, value, SCALING, window, RowTable.of(start, deep, CPU))
        moved_keys, moved_values = (
            x.clone().index_copy_(1, start + 2 * torch.arange(depth), x[:, start : start + depth]) for x in (key, value)
        )
        asked = query[:, [row // 2 for row in range(2 * depth)]]
        branches = attend_by_position(
            asked, moved_keys, moved_values, SCALING, window, RowTable.of(start, tree, CPU)
        )  # fmt: skip
        for row in range(depth):
            at = start + row
            table = RowTable.of(at, [[0], [0], [0]], CPU)
            assert int(table.live) == 1
            alone = attend_by_position(query[:, row, None].expand(-1, 3, -1), key, value, SCALING, window, table)
            assert torch.equal(alone[:, 0], whole[:, row])
            assert torch.equal(alone[:, 0], branches[:, 2 * row])
            assert not alone[:, 1:].any()


def test_what_it_takes(monkeypatch):
    assert obstacle(torch.bfloat16) == ""
    assert "float64" in obstacle(torch.float64)
    monkeypatch.setattr(by_position, "find_spec", lambda name: None)
    assert obstacle(torch.bfloat16) == "it takes the package triton"


def test_rows_that_fill_a_pass_up_do_not_count():
    assert live_rows([[0], [0, 1], [0, 2], [0, 2], [0, 2]]) == 3
    assert live_rows([[0, 3, 4], [0, 5], [0, 5]]) == 2  # the second pass of a step
    assert live_rows([[0]]) == 1


COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from spectra.target.fixed_order import kernels
from spectra.target.fixed_order.by_position import BLOCK, PART, block_size, filled

NUMBERS = {"length": "*i64", "live": "*i64", "positions": "*i64", "own": "*i64"}
NUMBERS |= {"mixed": "*fp32", "tops": "*fp32", "totals": "*fp32", "scaling": "fp32"}
CASES = (("bf16", 80, 4, 128, False), ("bf16", 90, 3, 64, True), ("fp32", 86, 1, 256, False))
for name, kind, group, dim, windowed in CASES:
    fixed = {"dim": dim, "dim_full": filled(dim), "width": dim, "width_full": filled(dim), "windowed": windowed}
    block = block_size(dim, 4 if name == "fp32" else 2)
    fixed |= {"group_size": group, "heads_full": filled(group), "block_size": block, "part_size": PART * BLOCK // block}
    fixed |= {"span": PART * BLOCK, "wide": name == "fp32"}
    types = NUMBERS | dict.fromkeys(("query", "key", "value", "out"), "*" + name) | dict.fromkeys(fixed, "constexpr")
    for kernel in (kernels.attend_part, kernels.merge_parts):
        signature = {one: types.get(one, "i32") for one in kernel.arg_names}
        source = ASTSource(fn=kernel, signature=signature, constexprs={x: fixed[x] for x in fixed if x in signature})
        made = triton.compile(source, target=GPUTarget("cuda", kind, 32), options={"num_warps": 4, "num_stages": 1})
        assert ".local" not in made.asm["ptx"], "registers are spilled"
        assert made.metadata.shared <= 99 * 1024, "more than a small GPU has"
        print(kernel.__name__, kind, name, len(made.asm["cubin"]))
"""


def test_the_kernels_compile_for_gpus(tmp_path, monkeypatch):
    """To machine code, which takes no GPU."""
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", COMPILE], cwd=package_root(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(done.stdout.splitlines()) == 6


SPECIALISED = """
from spectra.target.fixed_order import kernels

for kernel in (kernels.attend_part, kernels.merge_parts):
    for one in kernel.params:
        if not one.is_constexpr:
            print(one.name, not one.do_not_specialize, not one.do_not_specialize_on_alignment)
"""


def test_one_compiled_kernel_serves_every_step(monkeypatch):
    """Only pointers to whole allocations and strides of the cache may choose a kernel: they are of a kind for a model.

    Strides of a query and places in a table are other numbers in eager steps, captured ones and joint ones.
    """
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    done = subprocess.run(
        [sys.executable, "-c", SPECIALISED], cwd=package_root(), capture_output=True, text=True, check=True
    )
    chosen = {name for name, *by in map(str.split, done.stdout.splitlines()) if by == ["True", "True"]}
    cache = {"key", "value", "key_head", "key_slot", "value_head", "value_slot"}
    assert chosen == cache | {"mixed", "tops", "totals", "out", "scaling"}
