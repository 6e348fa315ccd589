"""Exact attention on a GPU: each row's context in one order of its own, by one Triton kernel."""
