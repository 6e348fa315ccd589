"""Size and shape of the code, of the working tree or of git revisions: `python tests/tools/figures.py [REVISION ...]`.

A cycle is counted among the direct children of `spectra/`, which are modules and packages, `__init__.py` among them.
Imports inside functions and under TYPE_CHECKING count, files for `python -m` (`__main__.py`) do not.
"""

import ast
import io
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[2]
Graph = Mapping[str, set[str]]


def imports_of(package: Path, name: str = "") -> Graph:
    """Child of the package -> other children that its files import, wherever in them. name: the package's, dotted."""
    children = {path.stem for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    graph: dict[str, set[str]] = {child: set() for child in children - {"__main__"}}
    for path in package.rglob("*.py"):
        child = path.relative_to(package).parts[0].removesuffix(".py")
        if child in graph and path.name != "__main__.py":
            used = imported(path, name or package.name)
            graph[child] |= {name if name in graph else "__init__" for name in used} - {child}
    return graph


def imported(path: Path, package: str) -> Iterable[str]:
    """Names right under `package`, a dotted name, in a file's import statements."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        start = f"{package}."
        yield from (name.removeprefix(start).split(".")[0] for name in names if name.startswith(start))


def reachable(graph: Graph, start: str) -> set[str]:
    seen: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += graph[name]
    return seen


def cycles(graph: Graph) -> list[set[str]]:
    """Sets of children that reach each other."""
    reach = {name: reachable(graph, name) for name in graph}
    found = {frozenset(other for other in reach[name] if name in reach[other]) for name in graph if name in reach[name]}
    return [set(one) for one in found]


def lines(paths: Iterable[Path]) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def statements(paths: Iterable[Path]) -> int:
    """Unlike lines, the same however the code is formatted."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in paths)
    return sum(isinstance(node, ast.stmt) for tree in trees for node in ast.walk(tree))


def python_of(root: Path) -> list[Path]:
    return [path for name in ("spectra", "visual") for path in (root / name).rglob("*.py")]


def cycle_sizes(root: Path) -> str:
    found = cycles(imports_of(root / "spectra"))
    return f"{len(found)}, of {', '.join(str(len(one)) for one in found)}" if found else "0"


FIGURES: dict[str, Callable[[Path], object]] = {
    "modules at the root of spectra/": lambda root: len(list((root / "spectra").glob("*.py"))),
    "children of spectra/": lambda root: len(imports_of(root / "spectra")),
    "import cycles among them": cycle_sizes,
    "lines of Python in spectra/ and visual/": lambda root: lines(python_of(root)),
    "statements of Python": lambda root: statements(python_of(root)),
    "lines of JavaScript": lambda root: lines((root / "assets").rglob("*.js")),
    "files of Python in spectra/bench/": lambda root: len(list((root / "spectra" / "bench").rglob("*.py"))),
}


DUPLICATES = "duplicates of six lines of Python"


def duplicates(root: Path) -> int:
    """Runs that stand in several files, as pylint finds them; signatures count, imports and comments do not."""
    ignored = ["--ignore-imports", "--ignore-comments", "--ignore-docstrings"]
    command = [sys.executable, "-m", "pylint.checkers.symilar", "-d", "6", "-i", *ignored]
    files = sorted(str(path) for path in python_of(root))
    found = subprocess.run([*command, *files], stdout=subprocess.PIPE, text=True)
    if "TOTAL lines=" not in found.stdout:
        raise SystemExit("figures: pylint counts the duplicates and does not run; make setup installs it")
    return found.stdout.count(" similar lines in ")


def figures(root: Path) -> dict[str, str]:
    found = {name: of(root) for name, of in FIGURES.items()}
    return {name: f"{value:,}" if isinstance(value, int) else str(value) for name, value in found.items()}


def figures_at(revision: str) -> dict[str, str]:
    command = ["git", "-C", str(ROOT), "archive", revision, "spectra", "visual", "assets"]
    archive = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    with TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
        return figures(Path(folder)) | {DUPLICATES: str(duplicates(Path(folder)))}


def main(revisions: list[str]) -> int:
    columns = {revision: figures_at(revision) for revision in revisions} | {
        "working tree": figures(ROOT) | {DUPLICATES: str(duplicates(ROOT))}
    }
    print("| |", *(f" {name} |" for name in columns), sep="")
    print("|---|", *("---:|" for _ in columns), sep="")
    for name in (*FIGURES, DUPLICATES):
        print(f"| {name} |", *(f" {column[name]} |" for column in columns.values()), sep="")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except subprocess.CalledProcessError as error:
        sys.exit(f"figures: {error.cmd[4]} is no revision of this repository")
