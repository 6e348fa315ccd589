"""`make browser`: a Chromium for the browser tests, from apt-get where that is, else the one playwright downloads."""

import os
import shlex
import shutil
import subprocess
import sys

from chromium import find_chromium


def run(*command: str) -> bool:
    print("+", shlex.join(command), flush=True)
    return subprocess.run(command, check=False).returncode == 0


def main() -> int:
    apt = shutil.which("apt-get")
    if not find_chromium() and apt:
        print("Debian or Ubuntu: installing the package chromium; this needs root", flush=True)
        root = [] if os.geteuid() == 0 else ["sudo"]
        if run(*root, apt, "update"):
            run(*root, apt, "install", "--yes", "--no-install-recommends", "chromium")
    if not find_chromium():
        print("downloading playwright's own Chromium into its cache folder", flush=True)
        run(sys.executable, "-m", "playwright", "install", *(["--with-deps"] if apt else []), "chromium")
    found = find_chromium()
    print(f"the browser tests drive {found}" if found else "no Chromium could be had; the browser tests stay left out")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
