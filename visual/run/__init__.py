"""A visitor's run: what was asked, the admission queue, the thread that decodes, what a tab holds."""
