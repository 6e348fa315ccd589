"""The only place that touches a model."""
