"""What lies in the folder of a datastore: the names of its files and the types of their rows.

Opening, checking and building a store all go by this file.
"""

import numpy as np

CARD = "card.json"
"""What the store was made of, and the checksums of all other files."""

CORPUS, TEXTS, SOURCES = "corpus.npy", "texts.npy", "sources.npy"
"""The tokens of the kept texts, one text after the other; a row of TEXT for each; hashes of the prompts they answer."""
TEXT = np.dtype([("start", "<i8"), ("length", "<i4"), ("perplexity", "<f4"), ("hash", "S16")])

TRIE = "contexts.marisa"
"""The contexts. A key is a context read backwards, 32 bits a token, big-endian."""
BLOCKS, SIZES, TOTALS = "blocks.npy", "sizes.npy", "totals.npy"
"""Where the successors of every STRIDE-th context start; how many each context has; how often each was seen."""
SUCCESSORS, COUNTS = "successors.npy", "counts.npy"
"""The ids of all successors, and how often each followed."""
STRIDE = 16
