"""Exact attention: right, and bit for bit the same for a token that came by a plain step or by a tree step."""

import random

import pytest
import torch
from drafting import random_tree

from spectra.errors import SpectraError
from spectra.target import attention
from spectra.target.attention import exact_attention
from spectra.target.attention_metadata import BLOCK, AttentionMetadata, slot_mask

CONTEXTS = (0, 1, 62, 63, 64, 65, 66, 127, 128, 129, 130, 300)
SHAPES = {"one query head per KV head": (2, 2, 16), "three": (6, 2, 32)}
WIDTHS = (torch.bfloat16, torch.float16, torch.float32)


class Scene:
    """Random keys, values and queries for `context` committed tokens and a tree. chains: each node's ancestors."""

    def __init__(self, seed, context, chains, shape, dtype):
        heads, kv_heads, dim = shape
        make = torch.Generator().manual_seed(seed)
        slots = context + len(chains)
        self.context, self.chains = context, chains
        self.key, self.value = (torch.randn(kv_heads, slots, dim, generator=make).to(dtype) for _ in range(2))
        self.query = (2 * torch.randn(heads, len(chains), dim, generator=make)).to(dtype)

    def tree(self, window):
        """[nodes, heads, dim], all nodes in one step."""
        return attend(self.query, self.key, self.value, self.context, self.chains, window)

    def plain(self, node, window, rows):
        """[heads, dim] of one node, its ancestors committed, the step filled up with copies of the row."""
        *above, _ = self.chains[node]
        at = [*range(self.context), *(self.context + a for a in above), *[self.context + node] * rows]
        query = self.query[:, [node] * rows]
        chains = [[0]] * rows
        return attend(query, self.key[:, at], self.value[:, at], self.context + len(above), chains, window)[0]


def attend(query, key, value, start, chains, window):
    """Through the door transformers uses; the cache comes in whole blocks with leftovers of earlier steps behind."""
    spare = -key.shape[1] % BLOCK
    key, value = (torch.nn.functional.pad(x, (0, 0, 0, spare), value=3.0)[None] for x in (key, value))
    metadata = AttentionMetadata(start, chains)
    out, _ = exact_attention(None, query[None], key, value, None, sliding_window=window, spectra_metadata=metadata)
    assert metadata.calls == 1
    return out[0]


def textbook(scene, window):
    """[nodes, heads, dim] in float64, one row and one head at a time."""
    heads, dim = scene.query.shape[0], scene.query.shape[2]
    group = heads // scene.key.shape[0]
    out = torch.zeros(len(scene.chains), heads, dim, dtype=torch.float64)
    for row, chain in enumerate(scene.chains):
        slots = [*range(scene.context), *(scene.context + node for node in chain)]
        slots = slots[-window:] if window else slots
        for head in range(heads):
            k, v = scene.key[head // group, slots].double(), scene.value[head // group, slots].double()
            out[row, head] = (k @ scene.query[head, row].double() * dim**-0.5).softmax(0) @ v
    return out


def chains_of(dice):
    kind = dice.choice(("tree", "tree", "deep", "star", "single"))
    if kind == "deep":
        return [list(range(i + 1)) for i in range(70)]
    tree = random_tree(dice, {"tree": dice.randrange(2, 30), "star": 12, "single": 1}[kind], wide=kind == "star")
    return [[0, *tree.path(node)] for node in range(len(tree))]


@pytest.mark.parametrize("window", [None, 5, 40, 64, 100])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_plain_and_tree_steps_agree_bit_for_bit(shape, window):
    for seed, context in enumerate(CONTEXTS):
        for dtype in WIDTHS:
            dice = random.Random(f"{seed} {window} {dtype}")
            scene = Scene(seed, context, chains_of(dice), shape, dtype)
            together = scene.tree(window)
            error = (together.double() - textbook(scene, window)).abs().max()
            assert error < {torch.bfloat16: 0.02, torch.float16: 0.003, torch.float32: 2e-6}[dtype]
            for node in {0, len(scene.chains) - 1, *(dice.randrange(len(scene.chains)) for _ in range(4))}:
                alone = scene.plain(node, window, rows=dice.choice((1, 2, 4)))
                assert torch.equal(alone, together[node]), (context, dtype, scene.chains[node])


def test_fp64_is_not_rounded_to_fp32():
    scene = Scene(1, 70, chains_of(random.Random(1)), (2, 2, 16), torch.float64)
    assert (scene.tree(None) - textbook(scene, None)).abs().max() < 1e-12


@pytest.mark.parametrize("window", [None, 40])
def test_gathering_in_chunks_changes_nothing(monkeypatch, window):
    scene = Scene(3, 100, [list(range(i + 1)) for i in range(50)], (6, 2, 32), torch.bfloat16)
    whole = scene.tree(window)
    monkeypatch.setattr(attention, "MOST_GATHERED", 1)
    assert torch.equal(scene.tree(window), whole)


def test_blocks_before_every_window_are_skipped():
    chains = [[0], [0, 1]]
    assert AttentionMetadata(300, chains).gathered(None, torch.device("cpu")).first == 0
    gathered = AttentionMetadata(300, chains).gathered(40, torch.device("cpu"))
    assert (gathered.first, gathered.base) == (256, 256)
    assert AttentionMetadata(300, chains).gathered(100, torch.device("cpu")).first == 192


def test_slot_mask_by_hand():
    expected = [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 0, 1]]
    assert slot_mask(2, [[0], [0, 1], [0, 2]], None).int().tolist() == expected
    assert slot_mask(2, [[0], [0, 1], [0, 2]], 2).int().tolist() == [[0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 1, 0, 1]]


def test_prefill_is_causal_attention():
    scene = Scene(4, 0, [list(range(i + 1)) for i in range(20)], (6, 2, 32), torch.float64)
    for window in (None, 6):
        metadata = AttentionMetadata(0, scene.chains, prefill=True)
        out, _ = exact_attention(
            None,
            scene.query[None],
            scene.key[None],
            scene.value[None],
            None,
            sliding_window=window,
            spectra_metadata=metadata,
        )
        assert (out[0] - textbook(scene, window)).abs().max() < 1e-12


def test_settings_it_does_not_know_are_refused():
    scene = Scene(5, 0, [[0]], (2, 2, 16), torch.float32)
    tensors = (None, scene.query[None], scene.key[None], scene.value[None], None)
    for name in ("softcap", "s_aux"):
        with pytest.raises(SpectraError, match=name):
            exact_attention(*tensors, spectra_metadata=AttentionMetadata(0, [[0]]), **{name: 30.0})
    with pytest.raises(SpectraError, match="numerics"):
        exact_attention(*tensors)


def test_a_cache_in_a_wider_dtype_changes_nothing():
    scene = Scene(6, 65, chains_of(random.Random(2)), (6, 2, 32), torch.bfloat16)
    before = scene.tree(None)
    scene.key, scene.value = scene.key.float(), scene.value.float()
    assert torch.equal(scene.tree(None), before)
