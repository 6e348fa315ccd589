"""How often draft models would be right, by rule, on the target's own answers."""
