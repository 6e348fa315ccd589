"""Draft models: small ones that a target's own text and probabilities are taught to, by one command."""
