"""A corpus to a datastore: read, filter, score, select, index. Resumable."""
