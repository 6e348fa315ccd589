"""Attention of the CPU library: near float64, and the bits of plain decoding for every row of every tree."""

import random

import pytest
import torch
from native_paths import every_path, library

from spectra.target.native.attention import Chains, attend


def random_chains(rows, rng, roots=1):
    """Random trees: a chain for every row."""
    chains = []
    for row in range(rows):
        parent = rng.randrange(row) if row >= roots else None
        chains.append([*(chains[parent] if parent is not None else []), row])
    return chains


def case(heads, kv_heads, dim, capacity, rows, seed=0, dtype=torch.float32):
    make = torch.Generator().manual_seed(seed)
    query = torch.randn(rows, heads, dim, generator=make).to(dtype)
    keys, values = (torch.randn(kv_heads, capacity, dim, generator=make).to(dtype) for _ in range(2))
    return query, keys, values


def by_float64(query, keys, values, length, chains, scaling, window):
    out = []
    for row, chain in enumerate(chains):
        slots = [*range(length), *(length + node for node in chain)]
        slots = slots[-window:] if window else slots
        group = query.shape[1] // keys.shape[0]
        key, value = (x[:, slots].double().repeat_interleave(group, 0) for x in (keys, values))
        weights = (torch.einsum("hd,hnd->hn", query[row].double(), key) * scaling).softmax(-1)
        out.append(torch.einsum("hn,hnd->hd", weights, value))
    return torch.stack(out)


HEADS = ((9, 3, 64), (4, 4, 32), (8, 1, 80), (4, 2, 96), (2, 1, 128), (2, 2, 256), (6, 2, 8), (3, 1, 24))


@every_path
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("heads", HEADS, ids=str)
def test_attention_is_near_float64(path, dtype, heads):
    rng = random.Random(0)
    for rows, length, window in ((1, 0, None), (7, 63, None), (40, 130, None), (23, 200, 70), (5, 64, 3)):
        query, keys, values = case(*heads, length + rows + 3, rows, dtype=dtype)
        chains = random_chains(rows, rng)
        got = attend(library(path), query.float(), keys, values, length, chains, heads[2] ** -0.5, window)
        want = by_float64(query, keys, values, length, chains, heads[2] ** -0.5, window)
        assert float((got.double() - want).abs().max()) < 5e-6, (rows, length, window)


@every_path
@pytest.mark.parametrize("window", [None, 9, 100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dim", [40, 48, 64])  # the last register in part, half a square of keys, squares
def test_a_tree_has_the_bits_of_plain_decoding(path, window, dtype, dim):
    rng = random.Random(1)
    for length, rows in ((0, 3), (5, 2), (60, 30), (63, 2), (64, 75), (127, 4), (190, 30)):
        query, keys, values = case(6, 2, dim, length + rows, rows, seed=length, dtype=dtype)
        chains = random_chains(rows, rng)
        tree = attend(library(path), query, keys, values, length, chains, 0.2, window)
        for row in rng.sample(range(rows), min(rows, 3)):
            chain = chains[row]
            order = [*range(length), *(length + node for node in chain)]
            plain = attend(
                library(path, 1),
                query[row : row + 1],
                keys[:, order].contiguous(),
                values[:, order].contiguous(),
                len(order) - 1,
                [[0]],
                0.2,
                window,
            )
            assert torch.equal(plain[0], tree[row])


@every_path
def test_a_prompt_has_the_bits_of_its_tokens_one_by_one(path):
    query, keys, values = case(4, 2, 16, 150, 150)
    for window in (None, 40):
        whole = attend(library(path), query, keys, values, 0, Chains.run(150), 0.25, window)
        for row in (0, 1, 63, 64, 100, 149):
            alone = attend(library(path), query[row : row + 1], keys, values, row, [[0]], 0.25, window)
            assert torch.equal(alone[0], whole[row])


@every_path
def test_threads_change_no_bit(path):
    query, keys, values = case(6, 2, 64, 300, 50)
    chains = random_chains(50, random.Random(2))
    results = [attend(library(path, n), query, keys, values, 250, chains, 0.125) for n in (1, 2, 3, 4)]
    assert all(torch.equal(one, results[0]) for one in results)


def test_strides_are_followed():
    query, keys, values = case(4, 2, 16, 90, 5)
    chains = random_chains(5, random.Random(3))
    apart = torch.zeros(2, 90, 3, 16)
    apart[:, :, 1], other = keys, torch.zeros(2, 90, 3, 16)
    other[:, :, 1] = values
    whole = attend(library(), query, keys, values, 85, chains, 0.25)
    assert torch.equal(attend(library(), query, apart[:, :, 1], other[:, :, 1], 85, chains, 0.25), whole)


def test_chains_are_checked():
    assert Chains.run(3).nodes.tolist() == Chains.of([[0], [0, 1], [0, 1, 2]]).nodes.tolist()
    for wrong in ([[0], [1, 0]], [[0], []], [[0], [0]], [[-1, 0]], [[1]]):
        with pytest.raises(ValueError):
            Chains.of(wrong)
    query, keys, values = case(4, 2, 16, 90, 5)
    with pytest.raises(ValueError, match="slots"):
        attend(library(), query, keys, values, 86, random_chains(5, random.Random(0)), 0.25)
