"""Imports point one way, torch stays where it belongs, files stay small, and nothing is loaded that could run code."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LONGEST = 250  # lines; most files are under 150

TORCH = {
    "spectra/sampling.py",
    "spectra/generate.py",
    "spectra/cli.py",
    "spectra/datastore/commands.py",
    "spectra/datastore/score.py",
    "spectra/datastore/selftext.py",
    "spectra/datastore/team.py",
    "spectra/draft_model.py",
    "spectra/bench/stock.py",
}
"""Files outside spectra/target and train/ that may import torch or transformers."""

MAY_IMPORT = {
    "errors": set(),
    "guess": set(),
    "text": set(),
    "settings": {"errors"},
    "tree": {"guess"},
    "expansion": {"guess", "tree"},
    "verify": {"tree"},
    "walk": {"expansion", "guess", "rules.draws", "rules.protocol", "tree"},
    "trace": {"errors", "guess", "tree"},
    "metrics": {"guess", "trace", "tree"},
    "budget": {"estimates", "tree", "target.protocol"},
    "estimates": {"guess", "tree"},
    "preset": {"budget", "drafters.protocol", "settings", "target.protocol", "tree", "verify"},
    "sampling": {"settings", "tree"},
    "decode": {
        "drafters.protocol",
        "guess",
        "methods",
        "preset",
        "settings",
        "target.protocol",
        "trace",
        "tree",
    },
}
"""What each of these modules may import of spectra."""

VISUAL_MAY = {"guess", "tree", "trace", "metrics", "errors", "settings"}


def files(*places):
    found = [path for place in places for path in (ROOT / place).rglob("*.py")]
    return {str(path.relative_to(ROOT)): path for path in found}


@cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path):
    """Names of the modules a file imports, wherever in it; `from a import b` gives a and a.b."""
    names = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def of(names, package):
    return {name for name in names if name == package or name.startswith(f"{package}.")}


@pytest.mark.parametrize("name", sorted(files("spectra")))
def test_torch_stays_where_it_belongs(name):
    heavy = {n for p in ("torch", "transformers", "safetensors", "accelerate") for n in of(imports(ROOT / name), p)}
    if name in ("spectra/target/protocol.py", "spectra/target/plan.py") or name not in TORCH:
        inside = name.startswith(("spectra/target/", "spectra/train/")) and not name.endswith(
            ("protocol.py", "plan.py")
        )
        assert inside or not heavy, f"{name} imports {sorted(heavy)}"


@pytest.mark.parametrize("module", MAY_IMPORT)
def test_imports_point_one_way(module):
    own = of(imports(ROOT / "spectra" / f"{module}.py"), "spectra")
    modules = {name.removeprefix("spectra.") for name in own if is_module(name)}
    assert modules <= MAY_IMPORT[module], f"spectra/{module}.py imports {sorted(modules - MAY_IMPORT[module])}"


def is_module(name):
    return (ROOT / f"{name.replace('.', '/')}.py").is_file()


@pytest.mark.parametrize("name", sorted(files("spectra/drafters")))
def test_drafters_touch_no_model(name):
    allowed = {"drafters", "guess", "tree", "settings", "errors"}
    own = {n.split(".")[1] for n in of(imports(ROOT / name), "spectra") if is_module(n) or n.count(".") > 1}
    extra = {"draft_model.py": {"expansion", "rules", "target", "walk"}, "retrieval.py": {"datastore"}}.get(
        Path(name).name, set()
    )
    assert own <= allowed | extra, name


@pytest.mark.parametrize("name", sorted(files("spectra/rules")))
def test_rules_are_arithmetic(name):
    names = imports(ROOT / name)
    own = {n.split(".")[1] for n in of(names, "spectra") if is_module(n) or n.count(".") > 1}
    assert own <= {"rules", "errors"} and not of(names, "torch"), name


@pytest.mark.parametrize("name", sorted(files("visual")))
def test_the_page_reads_traces_only(name):
    names = imports(ROOT / name)
    assert not of(names, "torch") | of(names, "transformers")
    own = {n.removeprefix("spectra.") for n in of(names, "spectra") if is_module(n)}
    assert own <= VISUAL_MAY, f"{name} imports {sorted(own - VISUAL_MAY)}"
    assert "spectra" not in names or name.startswith("spectra/"), f"{name} imports spectra as a whole"


def test_no_engine_file_imports_the_page():
    for name, path in files("spectra").items():
        assert not of(imports(path), "visual") | of(imports(path), "gradio") | of(imports(path), "app"), name


@pytest.mark.parametrize("package", ["spectra", "visual"])
def test_importing_does_not_load_torch(package):
    code = f"import sys, {package}; print(sorted({{'torch', 'transformers', 'gradio'}} & set(sys.modules)))"
    if package == "visual":
        code = code.replace("'gradio'", "'scipy'")
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_everything_exported_is_there():
    import spectra

    assert all(getattr(spectra, name) is not None for name in spectra.__all__)
    with pytest.raises(AttributeError, match="nothing_like_this"):
        spectra.nothing_like_this  # noqa: B018


@pytest.mark.parametrize("name", sorted(["app.py", *files("spectra", "visual")]))
def test_house_rules(name):
    path = ROOT / name
    text, tree = path.read_text(encoding="utf-8"), tree_of(path)
    assert len(text.splitlines()) <= LONGEST, f"{len(text.splitlines())} lines"
    assert ast.get_docstring(tree), "no module docstring"
    assert not any(isinstance(node, ast.Global) for node in ast.walk(tree)), "global"
    assert not of(imports(path), "pickle") | of(imports(path), "dill") | of(imports(path), "joblib")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            words = {keyword.arg for keyword in node.keywords}
            assert "trust_remote_code" not in words
            called = ast.unparse(node.func)
            assert called not in ("eval", "exec", "torch.load"), called


def test_the_loop_is_readable_in_one_place():
    assert len((ROOT / "spectra" / "decode.py").read_text().splitlines()) <= 130
