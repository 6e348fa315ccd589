"""`python -m spectra.bench`."""

import sys

from spectra.cli.entry import run

sys.exit(run("spectra.bench"))
