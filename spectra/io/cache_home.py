"""The user's folder for what can be made anew: converted models, compiled libraries, measured plans."""

import os
from pathlib import Path

from spectra.errors import SpectraError


def cache_home() -> Path:
    """`$XDG_CACHE_HOME/spectra`, else `~/.cache/spectra`. Raises SpectraError where neither is known."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or _home() / ".cache") / "spectra"
    except (RuntimeError, KeyError) as error:  # a user without an entry, and HOME is not set
        raise SpectraError("XDG_CACHE_HOME", "this user has no home folder; name a folder for caches there") from error


def _home() -> Path:
    """This user's, by the system's entry where HOME is empty: Python would take the root folder then."""
    if os.name != "posix" or os.environ.get("HOME") != "":
        return Path.home()
    import pwd

    return Path(pwd.getpwuid(os.getuid()).pw_dir)
