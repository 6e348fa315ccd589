"""`python -m spectra.train`."""

import sys

from spectra.cli.entry import run

sys.exit(run("spectra.train"))
