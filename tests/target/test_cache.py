"""The KV cache: a kept branch equals a cache filled by plain decoding; memory that is not there is named in bytes."""

import random

import pytest
import torch
from drafting import random_tree
from tiny import FAMILIES, VOCABULARY, model_of, target_of

from spectra import Sampling
from spectra.errors import SpectraError
from spectra.target.cache import Layout, SlabCache
from spectra.tree import TokenTree


def leaf_path(tree, dice):
    """A path from the root to some node, most often not contiguous."""
    return tree.path(dice.randrange(len(tree)))


@pytest.mark.parametrize("family", FAMILIES)
def test_keeping_a_branch_equals_recomputing(family):
    model = model_of(family)
    dice = random.Random(family)
    for _ in range(6):
        tokens = [dice.randrange(VOCABULARY) for _ in range(dice.choice((1, 4, 20)))]
        session = target_of(model).start(tokens, 60, 20, Sampling())
        try:
            for _ in range(4):
                tree = random_tree(dice, dice.randrange(1, 20))
                tree.tokens[0] = tokens[-1]
                session.score(tree, tokens)
                path = leaf_path(tree, dice)
                session.keep(path)
                tokens += [tree.tokens[node] for node in path] + [dice.randrange(VOCABULARY)]
                assert session.cache.length == len(tokens) - 1
            root = TokenTree(tokens[-1])
            with torch.inference_mode():
                got = session.target.forward(session.cache, root.tokens, [[0]], [0])[0]
                truth = model(torch.tensor([tokens]), use_cache=False).logits[0, -1]
            assert (got - truth).abs().max() < 1e-9 * truth.std()
        finally:
            session.close()


def test_keep_moves_rows_in_order_and_leaves_the_rest():
    cache = SlabCache(layers=2, capacity=10)
    for index, layer in enumerate(cache.layers):
        rows = torch.arange(6.0).view(1, 1, 6, 1) + 100 * index
        layer.update(rows, -rows)
    cache.length = 1
    cache.keep([0, 2, 4])
    assert cache.length == 4
    for index, layer in enumerate(cache.layers):
        kept = layer.keys[0, 0, :4, 0] - 100 * index
        assert kept.tolist() == [0, 1, 3, 5]
        assert torch.equal(layer.values, -layer.keys)


def test_update_writes_behind_the_committed_rows_without_advancing():
    cache = SlabCache(1, 8, Layout(4))
    first, second = torch.ones(1, 1, 3, 2), torch.full((1, 1, 3, 2), 7.0)
    cache.layers[0].update(first, first)
    assert cache.layers[0].get_seq_length() == 0
    cache.keep([0, 1])
    keys, _ = cache.layers[0].update(second, second)
    assert keys.shape[2] == 8  # 5 rows in whole blocks of 4
    assert keys[0, 0, :5, 0].tolist() == [1, 1, 7, 7, 7]


@pytest.mark.parametrize("error", [RuntimeError("no"), MemoryError(), torch.OutOfMemoryError("CUDA out of memory")])
def test_a_cache_that_does_not_fit_says_how_many_bytes(monkeypatch, error):
    target = target_of(model_of("llama"))

    def full(*_, **__):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(torch, "zeros", full)
        with pytest.raises(SpectraError) as caught:
            target.start([1, 2, 3], 100, 8, Sampling())
    assert caught.value.field == "max_new_tokens"
    assert f"{2 * 3 * 111 * 16 * 8:,} more bytes" in str(caught.value)
    target.start([1, 2, 3], 100, 8, Sampling()).close()  # the target is free again
