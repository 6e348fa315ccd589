"""The only place that asks a model while text is decoded."""
