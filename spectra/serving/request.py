"""One request that vLLM serves: its text, drafters that read nothing else, and what their guesses were worth."""

from collections.abc import Sequence

from spectra.budget.estimates import Estimates
from spectra.method import Drafter, Outcome
from spectra.serving.chains import GuessedChain, best_chain
from spectra.tree import TokenTree


class ServedRequest:
    """tokens: the part of the prompt that was read and everything accepted since."""

    def __init__(self, prompt: Sequence[int], drafters: Sequence[Drafter]) -> None:
        self.tokens = list(prompt)
        self.estimates = Estimates()
        self._drafters = drafters
        self._grown: TokenTree | None = None
        for drafter in drafters:
            drafter.begin(self.tokens)

    def __len__(self) -> int:
        return len(self.tokens)

    def accept(self, new: Sequence[int]) -> None:
        """Learn from what the model wrote: tokens that were guessed right and the one after them."""
        grown = self._grown or TokenTree(self.tokens[-1] if self.tokens else 0)
        self._grown = None
        self.tokens += new
        outcome = Outcome(grown, (), new, lambda ticket: None)
        for drafter in self._drafters:
            drafter.observe(self.tokens, outcome)
        self.estimates.observe(grown, new)

    def chain(self, max_tokens: int) -> GuessedChain:
        """The most promising continuation, at most `max_tokens` tokens of it; empty when the drafters know nothing."""
        tree = TokenTree(self.tokens[-1])
        for drafter in self._drafters:
            drafter.grow(tree, self.tokens)
        self._grown = tree
        return best_chain(tree, self.estimates.path_probabilities(tree), max_tokens)
