"""Rooms import one way, torch stays where it belongs, files stay small, and nothing is loaded that could run code."""

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from figures import cycles, figures, imports_of, lines, reachable

ROOT = Path(__file__).parents[2]
LONGEST = 400  # lines

ROOMS = (
    ("errors", "guess", "inside", "settings", "tree", "trace", "metrics"),
    ("io",),
    ("verify",),
    ("method", "decode"),
    ("drafters",),
    ("budget",),
    ("batch",),
    ("target",),
    ("datastore",),
    ("datastore.build",),
    ("methods",),
    ("service",),
    ("train",),
    ("serving",),
    ("bench",),
    ("cli",),
    ("generate", "__init__", "__main__"),
)
"""From the lowest to the highest. A room imports only rooms above it in this list, and its own modules; `python -m`
files hand on to `cli`. docs/architecture.md says what lives in each, in the same order (a test compares them)."""

HEAVY = ("torch", "transformers", "safetensors", "accelerate")
TORCH = ("target", "train", "datastore.build", "bench", "cli")
"""Rooms that may import torch or transformers."""
TORCH_FILES = ("spectra/verify/noise.py", "spectra/verify/picks.py", "spectra/generate.py")
"""And these files."""

BY_NAME = {"spectra/bench/weights.py", "spectra/bench/run/llama_cpp.py", "spectra/cli/entry.py"}
"""Files that import what a text names: modules of the standard library, llama.cpp, command lines."""
IMPORTERS = {
    "import_module", "__import__", "reload", "resolve_name", "runpy", "imp", "module_from_spec", "exec_module",
    "load_module", "SourceFileLoader", "locate", "_gcd_import",
}  # fmt: skip
"""Names of what imports the module that a text names, which cannot be seen here. No other file mentions one."""

VISUAL_MAY = {"guess", "tree", "trace", "metrics", "errors", "settings", "io.resources", "io.recent", "io.file_kinds"}
VISUAL_MAY |= {"io.json_text"}


def files(*places):
    found = [path for place in places for path in (ROOT / place).rglob("*.py")]
    return {str(path.relative_to(ROOT)): path for path in found}


@cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
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


def texts(tree):
    """Modules that a text alone names, or a thing in one: for `find_spec`, `sys.modules`, `resources` or a process."""
    alone = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    named = {text for text in alone if re.fullmatch(r"(spectra|visual)(\.\w+)+", text)}
    return {name for text in named for name in (text, text.rpartition(".")[0]) if "." in name and is_module(name)}


def importers(tree):
    """Those of IMPORTERS that a file mentions: called, handed on, imported under another name, or as a text alone."""
    mentioned = {
        node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    mentioned |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    mentioned |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    mentioned |= {word for node in ast.walk(tree) for alias in taken_by(node) for word in alias.name.split(".")}
    return mentioned & IMPORTERS


def exports_of(path):
    """Names that a file takes from `spectra` itself: what `spectra/__init__.py` exports, or all of it."""
    own = {name for name in imports(path) if name.count(".") == 1 and not is_module(name)}
    return of(own, "spectra") | (taken_whole(tree_of(path)) & {"spectra"})


def taken_whole(tree):
    """What an import binds as it is; `import a.b` binds a, with all that it exports."""
    whole = set()
    for node in ast.walk(tree):
        for alias in taken_by(node):
            if isinstance(node, ast.ImportFrom):
                whole.add(f"{node.module}.{alias.name}")
            else:
                whole.add(alias.name if alias.asname else alias.name.split(".")[0])
    return whole


def of(names, package):
    return {name for name in names if name == package or name.startswith(f"{package}.")}


def is_module(name):
    place = ROOT / name.replace(".", "/")
    return place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()


def module_of(name):
    """spectra/a/b.py -> a.b, spectra/a/__init__.py -> a"""
    inner = name.removeprefix("spectra/").removesuffix(".py").replace("/", ".")
    return inner.removesuffix(".__init__")


def level_of(module):
    """The place of a module's room in ROOMS, by the longest name that fits."""
    fits = [
        (len(room), level)
        for level, rooms in enumerate(ROOMS)
        for room in rooms
        if module == room or module.startswith(f"{room}.")
    ]
    assert fits, f"{module} is in no room"
    return max(fits)[1]


@pytest.mark.parametrize("name", sorted(files("spectra")))
def test_a_room_imports_only_rooms_above_it(name):
    module = module_of(name)
    names = of(imports(ROOT / name), "spectra") - {"spectra"}
    used = {n.removeprefix("spectra.") for n in names if is_module(n)}
    used |= {"__init__" for _ in exports_of(ROOT / name)}
    if module.endswith("__main__") and module != "__main__":
        assert used <= {"cli", *(n for n in used if n.startswith("cli."))}, f"{name} is for `python -m`: it calls cli"
        return
    used |= {n.removeprefix("spectra.") for n in of(texts(tree_of(ROOT / name)), "spectra")}
    own = level_of(module)
    higher = sorted(other for other in used if level_of(other) > own)
    assert not higher, f"{name} imports {higher}"


def test_the_document_has_the_same_rooms_in_the_same_order():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = [line for line in text.splitlines() if line.startswith("| ") and "`" in line.split("|")[1]]
    rooms = [tuple(re.findall(r"`([\w.]+)`", line.split("|")[1])) for line in table]
    assert rooms == list(ROOMS)
    assert all(is_module(f"spectra.{room}") for level in ROOMS for room in level)


def test_the_picture_has_the_arrows_of_the_code():
    """Each arrow is an import, and each import is an arrow or a way over several."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    picture = re.sub(r"\[.*?\]", "", re.findall(r"```mermaid\nflowchart TB\n(.*?)```", text, re.DOTALL)[0])
    drawn = {}
    for line in picture.splitlines():
        row = [re.findall(r"\w+", part) for part in line.split("-->")]
        for above, below in pairwise(row):
            for one in above:
                drawn.setdefault(one, set()).update(below)
    rooms = {node for below in drawn.values() for node in below}
    graph = {node: drawn.get(node, set()) for node in rooms | set(drawn)}
    used = {}
    for name, path in {**files("spectra", "visual"), "app.py": ROOT / "app.py"}.items():
        if not name.endswith("__main__.py") and (own := node_of(name)):
            below = {node_of(other.replace(".", "/")) for other in imports(path) if is_module(other)}
            used.setdefault(own, set()).update(below - {own, ""})
    assert set(graph) == set(used)
    assert not {(one, other) for one in drawn for other in drawn[one] - used[one]}, "no import"
    assert not {(one, other) for one in used for other in used[one] - reachable(graph, one)}, "not drawn"


def node_of(name):
    """The node of the picture that a file is in, "" for what is left out."""
    top, _, module = name.removesuffix(".py").partition("/")
    if top != "spectra":
        return top
    level = level_of(module_of(f"spectra/{module}")) if module else len(ROOMS) - 1
    left_out = {0: "words", 1: "", 3: "loop", len(ROOMS) - 1: ""}
    return left_out.get(level, ROOMS[level][0].rpartition(".")[2])


@pytest.mark.parametrize("package", ["spectra", "visual"])
def test_no_room_is_in_an_import_cycle(package):
    """The same by another count, of the tool that prints the figures of docs/architecture.md."""
    assert cycles(imports_of(ROOT / package)) == []


PARENTS = sorted({path.parents[1] for top in ("spectra", "visual") for path in (ROOT / top).rglob("*/*/__init__.py")})


@pytest.mark.parametrize("package", PARENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_package_inside_a_room_is_in_an_import_cycle(package):
    """Neither with another package of that room nor with a file beside it."""
    found = cycles(imports_of(package, ".".join(package.relative_to(ROOT).parts)))
    inner = {path.parent.name for path in package.glob("*/__init__.py")}
    assert not [one for one in found if one & inner]


def test_the_document_has_the_figures_of_the_tool():
    """Within a tenth, so that not every change of the code is one of the document."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for name, now in figures(ROOT).items():
        row = re.search(rf"^\| {re.escape(name)} \| .* \| ([\d,]+) \|$", text, re.MULTILINE)
        assert row, name
        written, counted = (int(number.replace(",", "")) for number in (row[1], now))
        assert abs(written - counted) <= counted / 10, f"{name}: {written} in the document, {counted} counted"


def test_the_figures_of_the_native_step_tell_the_size_of_its_room():
    text = (ROOT / "docs" / "benchmarks" / "README.md").read_text(encoding="utf-8")
    (written,) = re.findall(r"at a0d9959 and has ([\d,]+), and ([\d,]+) of C\+\+", text)
    target = ROOT / "spectra" / "target"
    counted = lines(target.rglob("*.py")), lines([*target.rglob("*.cpp"), *target.rglob("*.h")])
    for figure, now in zip(written, counted, strict=True):
        assert abs(int(figure.replace(",", "")) - now) <= now / 10, f"{figure} in the document, {now} counted"


def test_few_modules_at_the_root():
    assert len(list((ROOT / "spectra").glob("*.py"))) <= 12


@pytest.mark.parametrize("name", sorted(files("spectra")))
def test_torch_stays_where_it_belongs(name):
    heavy = {one for package in HEAVY for one in of(imports(ROOT / name), package)}
    module = module_of(name)
    inside = any(module == room or module.startswith(f"{room}.") for room in TORCH)
    assert not heavy or inside or name in TORCH_FILES, f"{name} imports {sorted(heavy)}"


@pytest.mark.parametrize("name", sorted(files("spectra/verify/rules")))
def test_rules_are_arithmetic(name):
    own = {n for n in of(imports(ROOT / name), "spectra") if is_module(n)}
    allowed = {"spectra", "spectra.errors", "spectra.verify", *of(own, "spectra.verify.rules")}
    assert own <= allowed and not of(imports(ROOT / name), "torch"), name


@pytest.mark.parametrize("name", sorted(files("visual")))
def test_the_page_reads_traces_only(name):
    names = imports(ROOT / name) | texts(tree_of(ROOT / name))
    assert not [one for package in HEAVY for one in of(names, package)]
    own = {
        n.removeprefix("spectra.") for n in of(names, "spectra") if is_module(n) and n not in ("spectra", "spectra.io")
    }
    assert own <= VISUAL_MAY, f"{name} imports {sorted(own - VISUAL_MAY)}"
    assert not exports_of(ROOT / name), f"{name} imports {exports_of(ROOT / name)}"
    assert "spectra.io" not in taken_whole(tree_of(ROOT / name)), f"{name} imports all of spectra.io"


def test_no_engine_file_imports_the_page():
    for name, path in files("spectra").items():
        names = imports(path) | texts(tree_of(path))
        assert not of(names, "visual") | of(names, "gradio") | of(names, "app"), name


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


DEFINED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
RUNS_CODE = ("pickle", "dill", "joblib", "cloudpickle", "shelve", "marshal", "torch.load")
CHANGES = {"append", "add", "update", "setdefault", "pop", "popitem", "clear", "extend", "insert", "remove", "discard"}
KEPT = {"spectra/target/known_models.py: _learned", "spectra/bench/gpu/page.py: os"}
"""What functions change outside of themselves after all: what was measured of a model object, for as long as there is
one, and the environment of a process that ends with its measurement."""


def test_what_is_imported_can_be_seen():
    named = {name for name in ("app.py", *files("spectra", "visual")) if importers(tree_of(ROOT / name))}
    assert named == BY_NAME


@pytest.mark.parametrize(
    "code",
    [
        "import importlib\nimportlib.import_module(f'spectra.{room}')",
        "import importlib\nimportlib.import_module('.service', 'spectra')",
        "from importlib import import_module as load\nload('spectra.service')",
        "import importlib\nlist(map(importlib.import_module, rooms))",
        "__import__('spectra.service')",
        "from pkgutil import resolve_name\nresolve_name('spectra.service.engine:Engine')",
        "import runpy\nrunpy.run_module('spectra.service')",
        "from importlib import util\nutil.module_from_spec(spec)",
        "import importlib\ngetattr(importlib, 'import_module')('spectra.service')",
        "import pydoc\npydoc.locate('spectra.service')",
    ],
)
def test_an_import_by_name_is_found(code):
    assert importers(ast.parse(code))
    assert not importers(ast.parse("from importlib.util import find_spec\nfrom importlib import metadata, resources"))


@pytest.mark.parametrize(
    "code",
    [
        "from importlib.util import find_spec\nfind_spec('spectra.service.engine')",  # it imports spectra.service
        "import sys\nsys.modules['spectra.service.engine'].Engine",
        "from importlib import resources\nresources.files('spectra.service')",
        "options = {'()': 'spectra.service.engine.Engine'}",
    ],
)
def test_a_module_that_a_text_names_is_found(code):
    assert {level_of(name.removeprefix("spectra.")) for name in texts(ast.parse(code))} == {level_of("service")}
    assert not texts(ast.parse("'What spectra.service.engine says.'\nfile, title = 'spectra.json', 'spectra'"))


@pytest.mark.parametrize(
    ("code", "whole"),
    [
        ("import spectra.errors\nspectra.load_target()", "spectra"),
        ("import spectra as engine", "spectra"),
        ("import spectra.io as files", "spectra.io"),
        ("from spectra import io", "spectra.io"),
    ],
)
def test_what_is_taken_whole_is_found(code, whole):
    assert whole in taken_whole(ast.parse(code))
    narrow = "from spectra.io.files import write\nfrom spectra.io import files\nimport spectra.errors as errors"
    assert not taken_whole(ast.parse(narrow)) & {"spectra", "spectra.io"}


@pytest.mark.parametrize("name", sorted(["app.py", *files("spectra", "visual")]))
def test_house_rules(name):
    path = ROOT / name
    text, tree = path.read_text(encoding="utf-8"), tree_of(path)
    assert len(text.splitlines()) <= LONGEST, f"{len(text.splitlines())} lines"
    assert ast.get_docstring(tree), "no module docstring"
    public = [node for node in tree.body if isinstance(node, DEFINED) and not node.name.startswith("_")]
    assert not [node.name for node in public if not ast.get_docstring(node)], "no docstring"
    assert not [one for package in RUNS_CODE for one in of(imports(path), package)]
    assert not breaches(tree)
    assert {f"{name}: {one}" for one in changed_outside(tree)} <= KEPT


def breaches(tree):
    """Of the rules that a statement alone can break."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            found.append("global")
        elif isinstance(node, ast.Constant) and node.value == "trust_remote_code":
            found.append("trust_remote_code")
        elif isinstance(node, ast.keyword) and (node.arg, ast.unparse(node.value)) != ("allow_pickle", "False"):
            found += {node.arg} & {"trust_remote_code", "allow_pickle"}
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("eval", "exec", "torch.load"):
            found.append(ast.unparse(node.func))
        elif isinstance(node, FUNCTIONS) and node.returns is not None and unnamed(node.returns):
            found.append(f"{node.name} returns a tuple without names")
    return found


def unnamed(annotation):
    """Whether it has a tuple of three things or more that have no names."""
    return any(
        isinstance(node, ast.Subscript)
        and ast.unparse(node.value) == "tuple"
        and isinstance(node.slice, ast.Tuple)
        and len(node.slice.elts) >= 3
        for node in ast.walk(annotation)
    )


def changed_outside(tree):
    """Names that the module defines or imports, where a function of it changes what they stand for."""
    outside = {alias.asname or alias.name.split(".")[0] for node in ast.walk(tree) for alias in taken_by(node)}
    outside |= {one.id for node in tree.body for one in targets(node) if isinstance(one, ast.Name)}
    modules = modules_of(tree)
    found = set()
    for function in (node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)):
        inner = [node for node in ast.walk(function) if isinstance(node, ast.Name | ast.arg)]
        own = {node.arg for node in inner if isinstance(node, ast.arg)}
        own |= {node.id for node in inner if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        for node in ast.walk(function):
            changed = [one for one in targets(node) if not isinstance(one, ast.Name)]
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in CHANGES:
                changed += [node.func] if base(node.func) not in modules else []
            found |= {base(one) for one in changed} & (outside - own)
    return found


def taken_by(node):
    return node.names if isinstance(node, ast.Import | ast.ImportFrom) else []


def modules_of(tree):
    """Names of modules, whose functions may be called `update`."""
    return {
        alias.asname or alias.name.split(".")[0]
        for node in ast.walk(tree)
        for alias in taken_by(node)
        if isinstance(node, ast.Import) or is_module(f"{node.module}.{alias.name}")
    }


def targets(node):
    """What a statement assigns to or deletes."""
    if isinstance(node, ast.Assign | ast.Delete):
        return node.targets
    return [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign) else []


def base(node):
    """The name that `a.b[c].d` begins with, "" for an expression without one."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return getattr(node, "id", "")


@pytest.mark.parametrize(
    "code",
    [
        "def f():\n    global seen",
        "options = {'trust_remote_code': True}",
        "load(name, trust_remote_code=asked)",
        "np.load(file, allow_pickle=True)",
        "eval(text)",
        "def f() -> tuple[int, str, float]: ...",
        "def f() -> list[tuple[int, str, float]]: ...",
    ],
)
def test_a_breach_is_found(code):
    assert len(breaches(ast.parse(code))) == 1
    assert not breaches(ast.parse("def f() -> tuple[int, ...]:\n    np.load(file, allow_pickle=False), model.eval()"))


@pytest.mark.parametrize(
    "code",
    [
        "SEEN = []\ndef f():\n    SEEN.append(1)",
        "SEEN: dict = {}\ndef f():\n    SEEN[1] = 2",
        "SEEN = {}\ndef f():\n    del SEEN[1]",
        "COUNT = Count()\ndef f():\n    COUNT.value += 1",
        "import torch\ndef f():\n    torch.nn.Module.forward = g",
        "def f():\n    from torch.nn import Module\n    Module.forward = g",
    ],
)
def test_what_is_changed_outside_is_found(code):
    assert len(changed_outside(ast.parse(code))) == 1
    assert not changed_outside(ast.parse("SEEN = []\ndef f(self, SEEN):\n    SEEN.append(1)\n    self.seen = 1"))


def test_no_two_classes_have_one_name():
    """But for the protocol of an engine that the page asks and the engine itself."""
    classes = [
        node.name
        for name, path in {**files("spectra", "visual"), "app.py": ROOT / "app.py"}.items()
        for node in tree_of(path).body
        if isinstance(node, ast.ClassDef)
    ]
    assert [name for name, count in Counter(classes).items() if count > 1] == ["Engine"]


def test_the_loop_is_readable_in_one_place():
    assert len((ROOT / "spectra" / "decode.py").read_text().splitlines()) <= 140
