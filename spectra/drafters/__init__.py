"""One file per idea; each grows a token tree and learns from what the target said of it."""
