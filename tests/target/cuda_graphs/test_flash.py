"""Flash attention over the context merged with the step's own rows: equal to one softmax, by whatever kernel."""

import random
import sys
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from drafting import random_tree
from recording import PlainFlash

from spectra.target.cuda_graphs import flash
from spectra.target.cuda_graphs.flash import Builtin, Installed, Own, context_kernel, flash_attention
from spectra.tree import ROOT

SCALING = 0.21
LENGTH = torch.tensor([9])


def varlen(query, key, value, starts_q, starts_k, most_q, most_k, dropout, causal, debug, *, scale):
    """torch's kernel, by its contract: rows of sequence i read keys of sequence i, which must not be empty."""
    assert starts_q.dtype == starts_k.dtype == torch.int32
    assert (dropout, causal, debug) == (0.0, False, False)
    assert query.is_contiguous()
    out, lse = torch.empty_like(query), query.new_empty(query.shape[1], len(query))
    for i in range(len(starts_q) - 1):
        rows, slots = (slice(*x[i : i + 2].tolist()) for x in (starts_q, starts_k))
        assert rows.stop - rows.start <= most_q
        assert slots.stop - slots.start <= most_k
        assert slots.start < slots.stop
        score = scale * torch.einsum("nhd,shd->hns", query[rows], key[slots])
        out[rows] = torch.einsum("hns,shd->nhd", score.softmax(-1), value[slots])
        lse[:, rows] = score.logsumexp(-1)
    return out, lse, None, None, None


def kvcache(q, k_cache, v_cache, *, cache_seqlens, softmax_scale, return_softmax_lse):
    """flash-attn's function, by its contract: [batch, rows, heads, d] and lengths of the caches."""
    assert cache_seqlens.dtype == torch.int32
    assert cache_seqlens.shape == q.shape[:1]
    assert return_softmax_lse
    starts = torch.tensor([0, q.shape[1]], dtype=torch.int32), torch.tensor([0, *cache_seqlens], dtype=torch.int32)
    most = q.shape[1], k_cache.shape[1]
    out, lse, *_ = varlen(q[0], k_cache[0], v_cache[0], *starts, *most, 0.0, False, False, scale=softmax_scale)
    return out[None], lse[None]


KERNELS = {
    "plain": partial(PlainFlash, None, None),
    "torch": partial(Builtin, varlen),
    "flash-attn": partial(Installed, kvcache),
}


def scene(seed, length, nodes, heads, kv_heads, slots, dim=16):
    make = torch.Generator().manual_seed(seed)
    key, value = (torch.randn(kv_heads, slots, dim, generator=make, dtype=torch.float64) for _ in range(2))
    query = torch.randn(heads, nodes, dim, generator=make, dtype=torch.float64)
    drawn = random_tree(random.Random(seed), nodes)
    seen = [{ROOT, *drawn.path(node)} for node in range(nodes)]
    tree = torch.tensor([[column in row for column in range(nodes)] for row in seen])
    bias = torch.zeros(nodes, nodes, dtype=torch.float64).masked_fill(~tree, float("-inf"))
    own = Own(*(x[:, length : length + nodes] for x in (key, value)), bias.repeat(heads // kv_heads, 1))
    return query, key, value, tree, own


def textbook(query, key, value, tree, length):
    """One row and one head at a time."""
    out = torch.zeros_like(query)
    for head in range(len(query)):
        k, v = (x[head // (len(query) // len(key))] for x in (key, value))
        for row in range(query.shape[1]):
            slots = [*range(length), *(length + int(node) for node in tree[row].nonzero())]
            out[head, row] = (SCALING * k[slots] @ query[head, row]).softmax(0) @ v[slots]
    return out


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize(("heads", "kv_heads"), [(2, 2), (6, 2)])
def test_equal_to_one_softmax(kernel, heads, kv_heads):
    for seed, (length, slots) in enumerate([(1, 64), (37, 64), (511, 1024), (1000, 1024), (2003, 4096)]):
        nodes = (1, 7, 20)[seed % 3]
        query, key, value, tree, own = scene(seed, length, nodes, heads, kv_heads, slots)
        got = flash_attention(query, key, value, SCALING, kernel(torch.tensor([length])), own)
        assert (got - textbook(query, key, value, tree, length)).abs().max() < 1e-12


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_a_single_row_is_read_with_its_context(kernel):
    for length, slots in ((0, 64), (40, 64), (3000, 4096)):
        query, key, value, tree, _ = scene(length, length, 1, 6, 2, slots)
        got = flash_attention(query, key, value, SCALING, kernel(torch.tensor([length + 1])), None)
        assert (got - textbook(query, key, value, tree, length)).abs().max() < 1e-12


def test_torch_gets_long_contexts_in_equal_parts():
    query, key, value, *_ = scene(3, 0, 5, 2, 2, 4096)
    rows = query.transpose(0, 1).contiguous()
    out, lse = Builtin(varlen, torch.tensor([3003]))(rows, key.transpose(0, 1), value.transpose(0, 1), SCALING)
    assert out.shape == (4, 5, 2, 16)
    score = SCALING * query @ key[:, :3003].mT
    assert (lse.logsumexp(0) - score.logsumexp(-1).T).abs().max() < 1e-12
    for part in range(4):
        first, last = 3003 * part // 4, 3003 * (part + 1) // 4
        assert (lse[part] - score[..., first:last].logsumexp(-1).T).abs().max() < 1e-12


def test_torch_takes_what_it_is_given():
    """torch knows its own kernel's arguments and the shapes of what comes back, without a GPU too."""
    query, key = (torch.empty(n, 4, 64, dtype=torch.bfloat16, device="meta") for n in (24, 4096))
    length = torch.empty(1, dtype=torch.long, device="meta")
    out, lse = Builtin(torch.ops.aten._flash_attention_forward, length)(query, key, key, SCALING)
    assert (out.shape, out.dtype) == ((4, 24, 4, 64), torch.bfloat16)
    assert (lse.shape, lse.dtype) == ((4, 24, 4), torch.float32)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, Builtin),
        ({"device": torch.device("cpu")}, None),
        ({"dtype": torch.float32}, None),
        ({"shape": (1, 2, 3, 60)}, None),
        ({"shape": (1, 2, 3, 512)}, None),
        ({"shape": (1, 2, 3, 32)}, None),  # values have 64
    ],
)
def test_a_kernel_is_taken_where_it_fits(change, found, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    monkeypatch.setattr(torch.backends.cuda, "is_flash_attention_available", lambda: True)
    fits = {"device": torch.device("cuda"), "dtype": torch.bfloat16, "shape": (1, 2, 3, 64)}
    query, value = SimpleNamespace(**(fits | change)), SimpleNamespace(**fits)
    assert (found is None) == (context_kernel(query, value, LENGTH) is None)
    if found:
        assert isinstance(context_kernel(query, value, LENGTH), found)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
        assert context_kernel(query, value, LENGTH) is None


def test_flash_attn_is_used_where_it_is_installed(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    query = SimpleNamespace(device=torch.device("cuda"), dtype=torch.float16, shape=(1, 2, 3, 64))
    assert flash.flash_library().startswith("torch ")
    monkeypatch.setattr(torch.backends.cuda, "is_flash_attention_available", lambda: False)
    monkeypatch.setitem(sys.modules, "flash_attn", SimpleNamespace())  # one that does not load as it should
    assert context_kernel(query, query, LENGTH) is None
    monkeypatch.setitem(sys.modules, "flash_attn", SimpleNamespace(flash_attn_with_kvcache=kvcache))
    assert isinstance(context_kernel(query, query, LENGTH), Installed)
    monkeypatch.setattr(flash, "version", lambda name: "2.9" if name == "flash_attn" else "")
    assert flash.flash_library() == "flash-attn 2.9"
