"""What transformers says of itself while models are loaded: a command's stderr is for its own lines."""


def quiet_transformers() -> None:
    """No progress bars and notices."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()
