"""Named presets: which drafters, what budget, how the tree is walked. A dict, no registry."""
