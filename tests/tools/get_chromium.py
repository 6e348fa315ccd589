"""`make browser`: a Chromium for the browser tests, by apt-get if there is one, else the one playwright downloads."""

import os
import shlex
import shutil
import subprocess
import sys

from chromium import find_chromium

PLAYWRIGHT = (sys.executable, "-m", "playwright", "install")


def run(*command: str) -> bool:
    print("+", shlex.join(command), flush=True)
    return subprocess.run(command, check=False).returncode == 0


def as_root() -> list[str] | None:
    """What a command that needs root starts with; None where this user cannot become root."""
    if os.geteuid() == 0:
        return []
    return ["sudo"] if shutil.which("sudo") else None


def main() -> int:
    root = as_root() if shutil.which("apt-get") else None
    if root is not None and not find_chromium():
        print("Debian or Ubuntu: installing the package chromium; this needs root", flush=True)
        if run(*root, "apt-get", "update"):
            run(*root, "apt-get", "install", "--yes", "--no-install-recommends", "chromium")
    if not find_chromium():
        print("downloading playwright's own Chromium into its cache folder", flush=True)
        run(*PLAYWRIGHT, "chromium")
        if root is not None and not find_chromium():  # it is there, but libraries of the system are not
            run(*PLAYWRIGHT, "--with-deps", "chromium")
    found = find_chromium()
    print(f"the browser tests use {found}" if found else "no Chromium was installed; the browser tests stay left out")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
