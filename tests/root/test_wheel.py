"""The wheel in an empty place: its two commands and the drop-in find stores, page and recorded races."""

import platform
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from compiled import compiler
from installed import ROOT, Installed, build_native_wheel, build_wheel

import spectra
from spectra.target.native.flags import FLAGS, shipped_name

pytestmark = [pytest.mark.real, pytest.mark.all_cases]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def copy(wheel, tmp_path_factory):
    """Its own packages, and for the rest those of this interpreter."""
    site, work = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("empty")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(site), str(wheel)]
    subprocess.run(pip, check=True, cwd=work)
    return Installed(site / "bin", Path(sys.executable), work, {"PYTHONPATH": str(site)})


def test_it_says_what_it_is(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (folder,) = {name.split("/")[0] for name in names if ".dist-info/" in name}
        metadata = archive.read(f"{folder}/METADATA").decode()
    head, _, text = metadata.partition("\n\n")
    assert f"Name: spectra-decoding\nVersion: {spectra.__version__}\n" in head
    assert set(re.findall("Provides-Extra: (.*)", head)) >= {"demo", "serve", "gpu", "corpus", "bench", "dev"}
    assert "Project-URL: Paper, https://" in head
    assert "# SPECTRA" in text and "sdk: gradio" not in text
    assert not re.search(r"\]\((?!https?:)", text), "a link that leads nowhere on a package index"
    assert f"{folder}/licenses/LICENSE" in names
    outside = {name.split("/")[0] for name in names} - {"spectra", "visual", "spectra_demo.py", folder}
    assert not outside, f"it would put {outside} beside other packages"
    tracked = subprocess.run(["git", "ls-files", "spectra"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(tracked.stdout.split()) <= set(names)


def test_generate_with_a_store(copy):
    report = copy.generate()
    assert report["method"] == "spectra-retrieval"
    assert report["answer"]["tokens"] == 16


def test_the_drop_in_with_stores(copy):
    same, *stores, place = copy.drop_in()
    assert same == "True"
    assert stores == ["chat", "code", "math"]
    assert Path(place) == copy.bin.parent


def test_the_demo_serves_its_files(copy):
    assert "--port" in copy.run(copy.bin / "spectra-demo", "--help")
    found = copy.demo()
    assert b"SPECTRA" in found[""]
    assert b"export" in found["spectra/js/tabs/race.js"]
    assert b'"datastore"' in found["config"] or b"store-ask" in found["config"]
    assert (ROOT / "assets/races/bank-account.json").read_bytes() == found["spectra/races/bank-account.json"]


@pytest.mark.skipif((sys.platform, platform.machine()) != ("linux", "x86_64"), reason="made on Linux on x86-64 only")
@pytest.mark.skipif(compiler() is None, reason="it takes a C++ compiler")
def test_a_wheel_with_the_cpu_library_needs_no_compiler(tmp_path, wheel):
    native = build_native_wheel(tmp_path)
    with zipfile.ZipFile(native) as archive, zipfile.ZipFile(wheel) as usual:
        names = set(archive.namelist())
        assert b"Root-Is-Purelib: false" in archive.read(next(name for name in names if name.endswith("/WHEEL")))
        assert names - set(usual.namelist()) == {f"spectra/target/native/shipped/{shipped_name(isa)}" for isa in FLAGS}
    site, work = tmp_path / "site", tmp_path / "empty"
    work.mkdir()
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(site), str(native)]
    subprocess.run(pip, check=True)
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "CXX": ""}
    copy = Installed(site / "bin", Path(sys.executable), work, {"PYTHONPATH": str(site), "PATH": str(work)} | cache)
    place = "from spectra.target.native.library import native_library as one; print(one().file.parent)"
    assert copy.run(copy.python, "-c", place).strip() == str(site / "spectra/target/native/shipped")


def test_the_lock_file_has_the_pins():
    locked = {}
    for package in tomllib.loads((ROOT / "uv.lock").read_text())["package"]:
        locked.setdefault(package["name"], set()).add(package.get("version"))
    pins = re.findall(r"^([\w-]+)==([\w.]+)", (ROOT / "requirements.txt").read_text(), re.M)
    assert len(pins) > 8
    assert {name: version for name, version in pins if version not in locked.get(name, ())} == {}
