"""Prompts to start a race or a conversation from, each with the reason it is worth trying."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Example:
    """name: on the button. why: its tooltip."""

    name: str
    prompt: str
    why: str


EXAMPLES = (
    Example(
        "Bank account",
        "Write a Python class for a bank account with methods to deposit, withdraw and show the balance. Add a short "
        "docstring to every method.",
        "Longer code, with names and phrases that come back.",
    ),
    Example(
        "Proofread",
        "Correct the spelling and repeat the whole text: The mitochondrion is the organel that releases energy from "
        "nutrients. The energy that the mitochondrion releases from nutrients is stored in molecules that the rest of "
        "the cell can use. Without the mitochondrion, the rest of the cell could not use the energy that is stored in "
        "nutrients.",
        "The answer copies the prompt: the best case for guessing.",
    ),
    Example(
        "Sort a matrix",
        "Write a function to sort a given matrix in ascending order according to the sum of its rows.",
        "Code repeats itself, so most guesses hold.",
    ),
    Example(
        "Short story",
        "Write the opening of a story about a lighthouse keeper who finds a message in a bottle.",
        "Free prose repeats little: the hard case for guessing.",
    ),
)

CHAT_PROMPTS = (
    Example(
        "Three colours",
        "Name three colours and say what each stands for.",
        "Ask for it as a table afterwards: that answer copies this one.",
    ),
    Example(
        "Count words",
        "Write a Python function that counts how often each word occurs in a text.",
        "Ask for a docstring afterwards: most of the code comes again.",
    ),
    Example(
        "Blue sky",
        "Explain in four short sentences why the sky is blue.",
        "Free prose: the hard case for guessing.",
    ),
)
"""First messages of a conversation."""
