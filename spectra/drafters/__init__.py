"""Drafters, one idea a file: each grows a token tree and learns from what the target said of it. And their parts."""
