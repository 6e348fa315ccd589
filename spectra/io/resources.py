"""Files that come with the project: inside an installed package, or, in a checkout, at its top."""

import os
from importlib.resources import files
from pathlib import Path


def package_root() -> Path:
    """The folder that holds the package `spectra`: the top of a checkout, or where packages are installed."""
    return Path(str(files("spectra"))).parent


def python_path() -> str:
    """PYTHONPATH with the project in front, for processes that are started in another folder."""
    return os.pathsep.join(filter(None, [str(package_root()), os.environ.get("PYTHONPATH")]))


def shipped(name: str) -> Path:
    """A file or folder that comes with the project, "datastores" or "assets/models" for example.

    A wheel carries them in `spectra/data`. Where the project came without it, the path is one that does not exist.
    """
    inside = package_root() / "spectra" / "data" / name
    return inside if inside.exists() else package_root() / name
