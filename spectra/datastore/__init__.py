"""SPECTRA-RETRIEVAL's datastores: built from a refined corpus, opened memory-mapped, asked for continuations."""
