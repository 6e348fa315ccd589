"""Commands of these tests load each model once."""

from benched import each_model_once, models

__all__ = ["each_model_once", "models"]
