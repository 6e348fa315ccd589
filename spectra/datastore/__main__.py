"""`python -m spectra.datastore`."""

import sys

from spectra.cli.entry import run

sys.exit(run("spectra.datastore"))
