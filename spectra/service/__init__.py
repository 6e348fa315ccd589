"""One loaded model that answers text: engine, answers, prefix caches, visitors' stores, warm start. No page."""
