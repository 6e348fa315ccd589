"""What transformers and accelerate say while models are loaded: a command's stderr is for its own lines."""

from logging import ERROR, getLogger


def quiet_transformers() -> None:
    """No progress bars and notices."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()
    getLogger("accelerate").setLevel(ERROR)
