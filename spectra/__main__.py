"""`python -m spectra`."""

import sys

from spectra.cli import main

sys.exit(main())
