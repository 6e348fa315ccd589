"""`python -m spectra`."""

import sys

from spectra.cli.entry import run

sys.exit(run("spectra"))
