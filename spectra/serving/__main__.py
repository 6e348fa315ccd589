"""`python -m spectra.serving`."""

import sys

from spectra.cli.entry import run

sys.exit(run("spectra.serving"))
