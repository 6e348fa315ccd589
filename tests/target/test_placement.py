"""Where the parts of a model go: what is refused before a model is loaded, and what transformers is told."""

import json

import pytest

from spectra.errors import SpectraError
from spectra.target.choices import check_device_name
from spectra.target.device_map import check_here
from spectra.target.load import check_device
from spectra.target.placement import Placement


def test_what_transformers_is_told(tmp_path):
    assert Placement().arguments() == {} and not Placement()
    file = tmp_path / "map.json"
    file.write_text(json.dumps({"model.layers.0": 0, "model.layers.1": "disk", "lm_head": "cpu"}))
    assert Placement(str(file), offload_folder=tmp_path).arguments() == {
        "device_map": {"model.layers.0": 0, "model.layers.1": "disk", "lm_head": "cpu"},
        "offload_folder": tmp_path,
    }
    file.write_text(json.dumps({"model.layers.0": "0", "lm_head": 0}))
    assert Placement(str(file)).arguments() == {"device_map": {"model.layers.0": 0, "lm_head": 0}}
    assert not Placement(str(file)).several
    assert Placement("auto", ("0=1.5GiB", "cpu = 60GB"), tmp_path).arguments() == {
        "device_map": "auto",
        "max_memory": {0: "1.5GiB", "cpu": "60GB"},
        "offload_folder": tmp_path,
    }
    assert Placement("balanced").arguments() == {"device_map": "balanced"}


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("device_map", ("sideways",)),
        ("device_map", ("NOT_JSON",)),
        ("device_map", ("LIST",)),
        ("device_map", ("FLOATS",)),
        ("max_memory", (None, ("0=20GiB",))),
        ("max_memory", ("auto", ("20GiB",))),
        ("max_memory", ("auto", ("0=20",))),
        ("max_memory", ("auto", ("cuda=20GiB",))),
        ("max_memory", ("CPU", ("cpu=20GiB",))),
        ("offload_folder", (None, (), "FOLDER")),
        ("offload_folder", ("auto", (), "LIST")),
        ("offload_folder", ("DISK",)),
    ],
)
def test_what_is_refused(tmp_path, field, given):
    texts = {"NOT_JSON": "{", "LIST": "[1]", "FLOATS": '{"a": 1.5}', "DISK": '{"a": "disk"}', "CPU": '{"": "cpu"}'}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    device_map, max_memory, folder = (*given, *((None, (), None)[len(given) :]))
    device_map = str(tmp_path / device_map) if device_map in texts else device_map
    with pytest.raises(SpectraError) as error:
        Placement(device_map, max_memory, folder and tmp_path / folder)
    assert error.value.field == field and "\n" not in str(error.value)


def test_a_device_and_a_map_are_one_too_many():
    check_device_name("cuda:1", Placement())
    with pytest.raises(SpectraError, match=r"^device: the device map"):
        check_device_name("cuda:1", Placement("auto"))


def test_there_is_one_cpu():
    for name in ("cpu", "cpu:0"):
        check_device_name(name)
        check_here("device_map", [check_device(name)])
    for check in (check_device_name, check_device):
        with pytest.raises(SpectraError, match=r"^device: 'cpu:7' is not available"):
            check("cpu:7")
    with pytest.raises(SpectraError, match=r"^device_map: device 'cpu:7' is not available"):
        check_here("device_map", ["cpu:7"])
