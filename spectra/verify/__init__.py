"""The target's own picks, the walk along them, and rules for drafts that carry probabilities."""
