"""`make dist`: wheels and a source archive in out/dist; the wheel of this platform tried in an environment and a folder
made for it.

On Linux on x86-64, where there is a compiler, besides the wheel for all platforms one with the CPU library in it.

Prints the seconds from the start of `pip install` to the first answer, and what each way in did. Needs a package index.
"""

import platform
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from compiled import compiler
from installed import ROOT, Installed, build_native_wheel

from spectra.target.embedded import INSTALL


def main() -> None:
    dist = ROOT / "out" / "dist"
    for old in dist.glob("*"):
        old.unlink()
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(dist)], cwd=ROOT, check=True)
    (wheel,) = dist.glob("*.whl")
    native = (sys.platform, platform.machine()) == ("linux", "x86_64") and compiler() is not None
    if native:
        wheel = build_native_wheel(dist)
    with tempfile.TemporaryDirectory(prefix="spectra-wheel-") as place:
        home, work = Path(place) / "venv", Path(place) / "empty"
        work.mkdir()
        venv.create(home, with_pip=True)
        copy = Installed(home / "bin", home / "bin" / "python", work, {"XDG_CACHE_HOME": str(Path(place) / "cache")})
        began = time.monotonic()
        copy.run(copy.python, "-m", "pip", "install", "-q", f"{wheel}[demo]")
        copy.run(copy.python, *INSTALL.split()[1:])
        installed = time.monotonic() - began
        copy.generate()
        compiled = bool(list(Path(place).glob("cache/spectra/native/*.so")))
        assert not (native and compiled), "the CPU library was compiled although the wheel has it"
        print(f"{wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB")
        print(f"pip install: {installed:.0f} s; first answer after {time.monotonic() - began:.0f} s")
        print(f"spectra generate again: {seconds(copy.generate):.0f} s")
        print(f"spectra-demo, started and asked for its files: {seconds(copy.demo):.0f} s")
        print("drop-in: plain decoding's text, stores, place:", *copy.drop_in()[:-1])


def seconds(work: object) -> float:
    began = time.monotonic()
    assert callable(work)
    work()
    return time.monotonic() - began


if __name__ == "__main__":
    main()
