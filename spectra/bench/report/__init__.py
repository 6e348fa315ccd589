"""Rows of timed runs to figures, Markdown tables and charts. No model."""
