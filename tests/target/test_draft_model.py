"""A draft model says after any node of a tree what the stock model says after those tokens; what is refused; shapes."""

import json

import numpy as np
import pytest
import torch
from compiled import needs_native
from native_paths import FOLDER
from tiny import make, model_of, target_of
from words import letters, tokenizer

from spectra import Sampling
from spectra.drafters.tree_shapes import depth, levels, size, unbalanced
from spectra.errors import SpectraError
from spectra.guess import Source
from spectra.methods.resources import load_resources
from spectra.target import draft_model
from spectra.target.draft_model import DraftModel, load_draft, load_drafts
from spectra.target.huggingface import HuggingFaceTarget
from spectra.target.load import load_target, wrap_model
from spectra.tree import ROOT, TokenTree
from spectra.verify.picks import processors_of


def alone(model, tokens, sampling):
    """The stock model over the whole text."""
    with torch.inference_mode():
        scores = model(torch.tensor([tokens]), use_cache=False).logits[:, -1].float()
    return torch.softmax(processors_of(sampling)(torch.tensor([tokens]), scores).double(), -1)[0].numpy()


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma3"])
def test_what_is_said_after_any_node_is_what_the_model_says_alone(family):
    """Over a cache that follows, is cut back and outgrows its slots."""
    model, sampling = model_of(family), Sampling(0.8, top_k=9, repetition_penalty=1.3)
    answer = DraftModel(target_of(model)).start(sampling)
    texts = [[5, 6, 7], [5, 6, 7, 8, 9], [5, 6, 11], [5, 6, 11], [5, 6, 11, *[3, 9, 27] * 140, 4, 40], [2]]
    for text in texts:
        assert answer.follow(text, 4)
        tree = TokenTree(text[-1])
        first = [tree.add(ROOT, token, Source.DRAFT) for token in (1, 2)]
        second = [tree.add(first[0], 3, Source.DRAFT), tree.add(first[1], 3, Source.DRAFT)]
        last = [tree.add(second[1], token, Source.DRAFT) for token in (6, 7, 8)]
        for level in ([ROOT], first, second, last, last[1:2]):
            for node, distribution in zip(level, answer.probabilities(tree, level), strict=True):
                expected = alone(model, [*text, *tree.path_tokens(node)], sampling)
                assert distribution.dtype == np.float64 and distribution.sum() == pytest.approx(1, abs=1e-12)
                np.testing.assert_allclose(distribution, expected, atol=1e-6)
                assert ((distribution > 0) == (expected > 0)).all()
    assert not answer.follow([1] * 510, 3)


@pytest.mark.parametrize("step", ["native", "eager"])
def test_in_bf16_with_little_space(monkeypatch, step):
    if step == "native":
        needs_native()
    monkeypatch.setattr(draft_model, "CAPACITY", 8)
    target = wrap_model(make("llama").bfloat16(), numerics="fast", step=step)
    answer, truth, text = DraftModel(target).start(Sampling()), make("llama"), [5]
    for token in (3, 9, 27, 4, 40, 8, 2, 11, 60, 7):
        text.append(token)
        assert answer.follow(text, 2)
        tree = TokenTree(token)
        first = tree.add(ROOT, 1, Source.DRAFT)
        for node, path in ((ROOT, []), (first, [1])):
            distribution = answer.probabilities(tree, [node])[0]
            assert np.abs(distribution - alone(truth, [*text, *path], Sampling())).sum() < 0.1


def test_the_likeliest_tokens_of_each_node():
    model = model_of("llama")
    answer = DraftModel(target_of(model)).start(Sampling())
    answer.follow([5, 6], 2)
    tree = TokenTree(6)
    nodes = [tree.add(ROOT, token, Source.DRAFT) for token in (9, 4)]
    said = [alone(model, [5, 6, token], Sampling()) for token in (9, 4)]
    assert answer.likely(tree, nodes, 3) == [list(np.argsort(-distribution)[:3]) for distribution in said]


class TestLoading:
    @pytest.fixture
    def target(self):
        return HuggingFaceTarget(model_of("llama", torch.float32), tokenizer(), name="tiny")

    @pytest.fixture
    def folder(self, tmp_path):
        make("llama", 3).save_pretrained(tmp_path / "small")
        return tmp_path / "small"

    def test_a_folder(self, target, folder):
        draft = load_draft(folder, target)
        assert (draft.name, draft.model.dtype) == ("small", torch.float32)
        tokenizer().save_pretrained(folder)
        assert [one.name for one in load_drafts([folder, str(folder)], target)] == ["small", "small"]

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            (lambda folder: make("llama", vocab_size=65).save_pretrained(folder), "has 65 tokens, the model 64"),
            (lambda folder: letters().save_pretrained(folder), "has another tokenizer than tiny"),
            (lambda folder: (folder / "config.json").write_text("{"), "cannot load"),
            (lambda folder: (folder / "tokenizer.json").write_text("{"), "cannot be read"),
        ],
    )
    def test_what_does_not_fit_is_named(self, target, folder, change, said):
        change(folder)
        with pytest.raises(SpectraError, match=r"^draft: .*" + said) as error:
            load_draft(folder, target)
        assert "\n" not in str(error.value)

    @pytest.mark.parametrize("name", ["/no/such/draft", "./none", "a--b"])
    def test_a_path_that_is_not_there_is_no_hub_id(self, target, name):
        for load, field in ((lambda: load_draft(name, target), "draft"), (lambda: load_target(name), "model")):
            with pytest.raises(SpectraError, match=f"^{field}: '{name}' is not there, and no hub id; give a "):
                load()

    def test_nan_among_its_weights_is_its_own(self, target, folder, tmp_path, monkeypatch):
        cache = tmp_path / "cache" / "spectra"  # nothing was measured there
        cache.mkdir(parents=True)
        (cache / FOLDER.name).symlink_to(FOLDER)
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent))
        model = make("llama", 3)
        with torch.no_grad():
            model.lm_head.weight[5] = float("nan")
        model.save_pretrained(folder)
        with pytest.raises(SpectraError, match=r"^draft: small holds NaN or infinity in lm_head.weight; "):
            load_draft(folder, target)

    def test_shipped_ones_go_with_their_tokenizer_only(self, target, folder, monkeypatch):
        monkeypatch.setattr(draft_model, "FOLDER", folder.parent)
        monkeypatch.setattr(draft_model, "SHIPPED", ("small", "smaller"))
        assert load_drafts((), target) == []  # it has no card
        for sha256, fits in (("0" * 64, False), (draft_model.tokenizer_sha256(tokenizer()), True)):
            (folder / "card.json").write_text(json.dumps({"tokenizer_sha256": sha256}))
            assert [one.name for one in load_drafts((), target)] == ["small"] * fits
        assert load_draft(None, target).name == "small"
        for damaged in ("{", "{}", "[]", "\udc80"):
            (folder / "card.json").write_text(damaged, errors="surrogateescape")
            with pytest.raises(
                SpectraError, match=r"^draft: .*card.json is damaged; install spectra-decoding again, or"
            ):
                load_drafts((), target)
        (folder / "card.json").write_text(json.dumps({"tokenizer_sha256": sha256}))
        assert load_resources(target, None).drafts[0].name == "small"
        monkeypatch.setattr(draft_model, "SHIPPED", ("smaller",))
        with pytest.raises(SpectraError, match="draft: smaller does not come with this copy"):
            load_draft(None, target)


class TestShapes:
    def test_levels(self):
        assert levels((2, 1), 9) == {(): 2, (0,): 1, (1,): 1}
        shape = levels((1, 1, 3, 1, 1, 1, 1, 1), 99)
        assert (size(shape), depth(shape)) == (20, 8)
        assert levels((2, 2, 2), 13) == levels((2, 2), 99)
        assert levels((2, 2), 1) == {} and depth({}) == 0

    def test_unbalanced_trees_take_the_places_the_walk_gets_to(self):
        assert unbalanced((0.8, 0.1), 6) == {(): 2, (0,): 2, (0, 0): 2}
        assert set(unbalanced((0.5, 0.4), 6)) == {(), (0,), (1,)}
        assert unbalanced((0.7, 0.0), 8) == {(): 2, (0,): 2, (0, 0): 2, (0, 0, 0): 2}
        assert set(unbalanced((0.5, 0.2, 0.2), 14)) == {(), (0,), (0, 0), (1,)}

    def test_no_other_tree_of_that_size_accepts_more(self):
        def worth(shape, chances):
            gain = 0.0
            for place in shape:
                chance = np.prod([chances[rank] for rank in place]) if place else 1.0
                gain += chance * sum(chances)
            return gain

        chances, inner = (0.55, 0.3), 4
        best = unbalanced(chances, 2 * inner)
        assert len(best) == inner
        grown = [frozenset({()})]
        for _ in range(inner - 1):
            grown = {s | {(*p, r)} for s in grown for p in s for r in (0, 1) if (*p, r) not in s}
        assert worth(best, chances) == pytest.approx(max(worth(s, chances) for s in grown))

    @pytest.mark.parametrize("chances", [(), (0.8, 0.3), (-0.1, 0.5)])
    def test_what_are_no_chances(self, chances):
        with pytest.raises(ValueError, match="no chances"):
            unbalanced(chances, 8)
