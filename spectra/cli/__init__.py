"""The command lines. Arguments are checked and typed here; the other rooms get plain values."""
