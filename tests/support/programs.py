"""Every command line of the project, by what `python -m` runs."""

import app
from spectra.cli import bench, datastore, main, serving, train

PARSERS = {
    "app.py": app.build_parser,
    "spectra": main.build_parser,
    "spectra.bench": bench.build_parser,
    "spectra.datastore": datastore.build_parser,
    "spectra.serving": serving.build_parser,
    "spectra.train": train.build_parser,
}
