"""What benchmarks share: the resumable loop over prompts, its rows on disk, and ways to answer a prompt."""
