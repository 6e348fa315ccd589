"""Files of what guesses are worth: they hold what was written, and anything else is refused in one line."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from spectra.budget.estimates import Estimates
from spectra.budget.weights import BUILT_IN, FILE, Weights, feature_of, name_of, read_weights
from spectra.errors import SpectraError
from spectra.guess import Guess, Source
from spectra.methods.resources import load_resources, weights_for
from spectra.tree import TokenTree


def changed(tmp_path, change):
    path = tmp_path / "w.json"
    BUILT_IN.write(path, {"model": "m"})
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    return path


def test_a_file_holds_what_was_written(tmp_path):
    weights = Weights({**BUILT_IN.features, (Source("mine"), 3, True): 1.25}, -0.75, 0.625)
    weights.write(tmp_path / "w.json", {"model": "m"})
    assert read_weights(tmp_path / "w.json") == weights


def test_every_property_has_a_name_of_its_own():
    names = [name_of(feature) for feature in BUILT_IN.features]
    assert len(set(names)) == len(names)
    assert [feature_of(name) for name in names] == list(BUILT_IN.features)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(format="other"),
        lambda data: data.update(version=2),
        lambda data: data.pop("features"),
        lambda data: data.update(features=[]),
        lambda data: data.update(drawn="1"),
        lambda data: data.update(luck=True),
        lambda data: data["features"].update({"forward/0": float("nan")}),
        lambda data: data["features"].update({"forward": 1.0}),
        lambda data: data["features"].update({"forward/x": 1.0}),
        lambda data: data["features"].update({"forward/0/first": 1.0}),
        lambda data: data["features"].update({"No Source/0": 1.0}),
    ],
)
def test_what_fit_did_not_write_is_refused(tmp_path, change):
    with pytest.raises(SpectraError, match=r"estimates: .*w\.json is no file of estimates") as refused:
        read_weights(changed(tmp_path, change))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff\xfe", b"[" * 100_000])
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "w.json").write_bytes(content)
    with pytest.raises(SpectraError, match="no file of estimates"):
        read_weights(tmp_path / "w.json")
    with pytest.raises(SpectraError, match="no file of estimates"):
        read_weights(tmp_path / "none.json")


def test_a_store_brings_its_own_and_a_named_file_goes_first(tmp_path):
    stores = []
    for name, drawn in (("bare", None), ("one", -1.0), ("two", -2.0)):
        (tmp_path / name).mkdir()
        if drawn is not None:
            Weights({}, drawn).write(tmp_path / name / FILE, {})
        stores.append(SimpleNamespace(folder=tmp_path / name))
    assert weights_for(stores[:1]) is BUILT_IN
    assert weights_for(stores).drawn == -1.0
    assert weights_for(stores, tmp_path / "two" / FILE).drawn == -2.0


def test_methods_begin_with_the_weights_of_their_resources(tmp_path):
    from tiny import model_of, target_of

    from spectra import make_method

    Weights({(Source.FORWARD, 0, False): 3.0}).write(tmp_path / "w.json", {})
    resources = load_resources(target_of(model_of("llama")), None, estimates=Path(tmp_path / "w.json"))
    tree = TokenTree(1)
    tree.insert(Guess((2,), Source.FORWARD))
    budget = make_method("spectra", target_of(model_of("llama")), resources).budget
    assert budget.chance(tree, 1) > 0.95 > Estimates().chance(tree, 1)


def test_a_target_without_a_tokenizer_has_no_stores_to_fit():
    from tiny import model_of, target_of

    target = target_of(model_of("llama"))
    with pytest.raises(SpectraError, match=r"^datastores: this target has no tokenizer .* give None"):
        load_resources(target)
    assert not load_resources(target, None).stores


def test_of_what_a_file_says_nothing_the_built_in_weights_count(tmp_path):
    """One written before a property was known would make all guesses that have it worthless."""
    name = ("confidence", 10)
    read = read_weights(changed(tmp_path, lambda data: data["features"].pop(name_of(name))))
    assert read.features[name] == BUILT_IN.features[name]
