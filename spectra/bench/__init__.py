"""Benchmarks as commands: `python -m spectra.bench`. Nothing here is a test; nothing in tests is timed."""
