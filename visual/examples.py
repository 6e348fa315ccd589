"""Prompts to start from, each with the reason it is worth trying."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Example:
    """name: on the button. why: its tooltip."""

    name: str
    prompt: str
    why: str


EXAMPLES = (
    Example(
        "Sort a matrix",
        "Write a function to sort a given matrix in ascending order according to the sum of its rows.",
        "Code repeats itself, so most guesses hold.",
    ),
    Example(
        "Rewrite a text",
        "Rewrite in simpler words: The mitochondrion is the organelle that releases energy from nutrients. The energy "
        "that the mitochondrion releases from nutrients is stored in molecules that the rest of the cell can use.",
        "The answer copies from the prompt: the forward dictionary's best case.",
    ),
    Example(
        "Arithmetic",
        "Natalia sold clips to 48 of her friends in April, and then she sold half as many clips in May. How many clips "
        "did Natalia sell altogether in April and May?",
        "Working step by step repeats the numbers and names of the question.",
    ),
    Example(
        "Short story",
        "Write the opening of a story about a lighthouse keeper who finds a message in a bottle.",
        "Free prose repeats little: the hard case for guessing.",
    ),
)
