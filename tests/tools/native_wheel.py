"""For hatchling: a wheel for Linux on x86-64 that has the CPU library of every path in it, so that nothing is compiled
where it is installed. `HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 python -m hatchling build -t wheel`."""

import importlib.util
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NATIVE = Path(__file__).parents[2] / "spectra" / "target" / "native"
LINKING = ("-static-libstdc++", "-static-libgcc", "-s")
"""Of the compiler's own libraries, those of another machine may be older."""


class NativeWheel(BuildHookInterface):
    def initialize(self, version, build_data):
        if version == "editable":
            return
        if (sys.platform, platform.machine()) != ("linux", "x86_64"):
            raise SystemExit("a wheel with the CPU library in it is built on Linux on x86-64 only")
        flags = _flags()
        compiler = next(filter(None, map(shutil.which, flags.COMPILERS)), None)
        if compiler is None:
            raise SystemExit(f"a wheel with the CPU library in it needs a C++ compiler: {', '.join(flags.COMPILERS)}")
        self.made = tempfile.TemporaryDirectory(prefix="spectra-native-")

        def compiled(isa):
            file = Path(self.made.name) / flags.shipped_name(isa)
            subprocess.run([compiler, *flags.COMMON, *flags.FLAGS[isa], *LINKING, flags.MAIN, "-o", file], check=True)
            file.write_bytes(flags.sealed(file.read_bytes()))
            return file

        with ThreadPoolExecutor() as pool:
            files = list(pool.map(compiled, flags.FLAGS))
        needed = max(int(found) for file in files for found in re.findall(rb"GLIBC_2\.(\d+)", file.read_bytes()))
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_2_{needed}_x86_64"
        for file in files:
            build_data["force_include"][str(file)] = f"spectra/target/native/{flags.SHIPPED.name}/{file.name}"

    def finalize(self, version, build_data, artifact_path):
        if version != "editable":
            self.made.cleanup()


def _flags():
    """The module by itself: `spectra` needs torch, which a build does not have."""
    spec = importlib.util.spec_from_file_location("native_flags", NATIVE / "flags.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
