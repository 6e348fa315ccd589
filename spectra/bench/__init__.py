"""Benchmarks as commands: `python -m spectra.bench`."""
