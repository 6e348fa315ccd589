"""A day with a GPU as one command: parts in order of worth, each a process of its own."""
