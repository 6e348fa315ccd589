"""A visitor's run: what was asked, the line of visitors, the thread that decodes, what a tab holds."""
