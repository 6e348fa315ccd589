"""The version of the package: pyproject.toml reads it here."""

VERSION = "0.1.0"
