"""Data files are found in a checkout and where a wheel puts them, which `pyproject.toml` says."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from spectra.io.resources import package_root, shipped

ROOT = Path(__file__).parents[2]


def test_in_a_checkout_they_lie_at_its_top():
    assert package_root() == ROOT
    assert shipped("datastores") == ROOT / "datastores"
    assert (shipped("assets/models") / "spectra-nano" / "config.json").is_file()
    assert not shipped("nothing").exists()


def test_an_installed_copy_finds_those_of_its_wheel(tmp_path):
    site = tmp_path / "site"
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    for name in wheel["only-include"]:
        place = site / wheel["sources"].get(name, name)
        place.parent.mkdir(parents=True, exist_ok=True)
        if name == "spectra":
            shutil.copytree(ROOT / name, place, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
        else:
            place.symlink_to(ROOT / name)
    code = (
        "from spectra.datastore.card import read_card; from spectra.datastore.shipped import stores_for;"
        "from spectra.io.resources import shipped;"
        "stores = stores_for(read_card(shipped('datastores/chat'))['tokenizer_sha256']);"
        "print(shipped('assets/models'), *(store.folder for store in stores), sep='\\n')"
    )
    environment = os.environ | {"PYTHONPATH": str(site)}
    command = [sys.executable, "-c", code]
    out = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    data = site / "spectra" / "data"
    stores = [data / "datastores" / name for name in ("chat", "code", "math")]
    assert out.stdout.splitlines() == [str(data / "assets" / "models"), *map(str, stores)]
