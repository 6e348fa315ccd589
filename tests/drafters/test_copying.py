"""ANPD, prompt lookup and what copies repeats: what each guesses, by hand and against slow definitions of the same."""

import random

import pytest
from drafting import Strict, grown, outcome_of, runs

from spectra.drafters.anpd import Anpd
from spectra.drafters.automaton import Automaton, SuffixAutomaton
from spectra.drafters.copies import PLACES, RUN, Copies
from spectra.drafters.prompt_lookup import PromptLookup
from spectra.guess import Source
from spectra.tree import TokenTree

TEXTS = [[random.Random(i).randrange(2 + i % 5) for _ in range(1 + 7 * i)] for i in range(12)]


def begun(drafter, prompt):
    drafter.begin(prompt)
    return drafter


def guess(drafter, tokens):
    """The guessed chain and the match of each of its nodes."""
    tree = grown(drafter, tokens)
    assert tree.parents[1:] == list(range(len(tree) - 1))
    return tree.tokens[1:], tree.matches[1:]


def write(drafter, tokens, new):
    """The target wrote `new` after `tokens`."""
    drafter.observe([*tokens, *new], outcome_of(TokenTree(tokens[-1]), {}, new))
    return [*tokens, *new]


class TestAnpd:
    def test_the_most_frequent_continuation_wins(self):
        text = [1, 2, 7, 1, 2, 8, 1, 2, 7, 5, 1, 2]
        assert guess(begun(Anpd(order=3, length=3), text), text) == ([7, 5, 1], [2, 2, 2])

    def test_of_equals_the_newest(self):
        text = [1, 7, 1, 8, 1]
        assert guess(begun(Anpd(order=2, length=1), text), text) == ([8], [1])
        text = [1, 8, 1, 7, 1]
        assert guess(begun(Anpd(order=2, length=1), text), text) == ([7], [1])

    def test_a_long_context_goes_before_a_frequent_short_one(self):
        text = [3, 1, 9, 1, 8, 1, 8, 3, 1]
        assert guess(begun(Anpd(order=3, length=1), text), text) == ([9], [2])
        assert guess(begun(Anpd(order=2, length=1), text), text) == ([8], [1])

    def test_counts_follow_the_accepted_text(self):
        drafter = begun(Anpd(order=2, length=1), [1, 7, 1, 7, 1])
        tokens = write(drafter, [1, 7, 1, 7, 1], [8, 1, 8, 1, 8, 1])
        assert guess(drafter, tokens) == ([8], [1])

    def test_a_miss_guesses_nothing_and_a_banned_token_ends_the_chain(self):
        assert guess(begun(Anpd(), [1, 2, 3]), [1, 2, 3]) == ([], [])
        text = [1, 2, 3, 1]
        assert guess(begun(Anpd(order=2, banned={3}), text), text) == ([2], [1])

    @pytest.mark.parametrize("text", TEXTS)
    def test_against_counting(self, text):
        drafter = begun(Anpd(order=4, length=1), text)
        for match in range(min(3, len(text)), 0, -1):
            after = [text[i + match] for i in range(len(text) - match) if text[i : i + match] == text[-match:]]
            if after:
                best = max(reversed(after), key=after.count)
                assert guess(drafter, text) == ([best], [match])
                return
        assert guess(drafter, text) == ([], [])


class TestPromptLookup:
    def test_copies_what_followed_the_newest_longest_match(self):
        text = [1, 2, 3, 4, 9, 2, 3, 5, 8, 7, 2, 3]
        assert guess(begun(PromptLookup(order=3, length=3), text), text) == ([5, 8, 7], [2, 2, 2])
        text = [1, 2, 3, 4, 9, 2, 3, 5, 8, 7, 1, 2, 3]
        assert guess(begun(PromptLookup(order=3, length=3), text), text) == ([4, 9, 2], [3, 3, 3])

    def test_stops_before_a_banned_token(self):
        text = [1, 5, 6, 0, 7, 1]
        assert guess(begun(PromptLookup(banned={0}), text), text) == ([5, 6], [1, 1])
        assert guess(begun(PromptLookup(banned={5}), text), text) == ([], [])

    @pytest.mark.parametrize("text", TEXTS)
    def test_against_a_scan(self, text):
        half = len(text) // 2
        drafter = begun(PromptLookup(order=3, length=5), text[:half])
        if half:
            write(drafter, text[:half], text[half:])
        else:
            drafter = begun(PromptLookup(order=3, length=5), text)
        for match in range(min(3, len(text)), 0, -1):
            for at in range(len(text) - match - 1, -1, -1):
                if text[at : at + match] == text[-match:]:
                    assert guess(drafter, text)[0] == text[at + match : at + match + 5]
                    return
        assert guess(drafter, text) == ([], [])


class TestSuffixAutomaton:
    @pytest.mark.parametrize("text", TEXTS)
    def test_every_match_and_its_newest_place_against_a_scan(self, text):
        automaton = Automaton()
        for size, token in enumerate(text, 1):
            automaton.push(token)
            newest = {}  # where a suffix occurred earlier -> the longest such suffix and its newest place
            for length in range(1, size):
                ends = [
                    at + length for at in range(size - length) if text[at : at + length] == text[size - length : size]
                ]
                if ends:
                    newest[tuple(ends)] = (length, ends[-1])
            assert list(automaton.matches())[:32] == sorted(newest.values(), reverse=True)[:32]

    def test_states_stay_few(self):
        dice, automaton = random.Random(1), Automaton()
        for _ in range(500):
            automaton.push(dice.randrange(3))
        assert 500 < len(automaton._next) <= 2 * 500

    @pytest.mark.parametrize("text", TEXTS)
    def test_it_knows_how_many_tokens_have_followed_one(self, text):
        automaton, after = Automaton(), {}
        for before, token in zip([None, *text], text, strict=False):
            automaton.push(token)
            after.setdefault(token, set())
            after.setdefault(before, set()).add(token)
            assert all(automaton.followers(one) == len(after[one]) for one in after if one is not None)

    def test_a_copy_after_a_token_that_many_have_followed_is_less_certain(self):
        text = [1, 2, 1, 3, 1, 4, 1, 5, 1, 6, 7, 2, 3, 1, 6]
        tree = grown(begun(SuffixAutomaton(), text), text)
        assert tree.tokens[1:] == [7, 2, 3]
        assert tree.confidence[1:] == [10, 10, 11]  # 7 after 6, 2 after 7; 1 or 3 after 2
        text = [*text, 7, 2, 3, 1]
        tree = grown(begun(SuffixAutomaton(depth=1), text), text)
        assert (tree.tokens[1:], tree.confidence[1:]) == ([6], [13])  # five have followed 1

    def test_the_guess_grows_with_the_match(self):
        text = [1, 2, 3, 4, 5, 6, 7, 9, 2, 3]
        assert guess(begun(SuffixAutomaton(), text), text) == ([4, 5, 6], [2, 2, 2])
        assert guess(begun(SuffixAutomaton(depth=2), text), text) == ([4, 5], [2, 2])

    def test_a_loop_goes_on_past_the_end_of_the_text(self):
        text = [1, 2, 3] * 3
        assert guess(begun(SuffixAutomaton(depth=8), text), text)[0] == [1, 2, 3, 1, 2, 3, 1]

    def test_shorter_matches_that_go_on_differently_come_next(self):
        text = [7, 1, 2, 5, 0, 2, 6, 0, 1, 2]
        tree = grown(begun(SuffixAutomaton(ranks=2), text), text)
        assert runs(tree, Source.AUTOMATON) == [(5, 0, 2), (6, 0)]
        assert tree.ranks[1:] == [0, 0, 0, 1, 1]
        assert tree.matches[1:] == [2, 2, 2, 1, 1]
        assert runs(grown(begun(SuffixAutomaton(ranks=1), text), text), Source.AUTOMATON) == [(5, 0, 2)]
        assert runs(grown(begun(SuffixAutomaton(banned={5, 0}), text), text), Source.AUTOMATON) == [(6,)]

    def test_it_learns_what_is_written(self):
        drafter = begun(SuffixAutomaton(), [1, 2])
        assert guess(drafter, [1, 2])[0] == []
        tokens = write(drafter, [1, 2], [3, 1, 2])
        assert guess(drafter, tokens)[0] == [3, 1, 2]

    def test_text_is_read_when_a_guess_is_asked_for(self):
        """Most sequences of a wide batch are never asked."""
        drafter, tokens = begun(SuffixAutomaton(), [4, 1, 2]), [4, 1, 2]
        for new in ([3, 4], [1, 2]):
            tokens = write(drafter, tokens, new)
            assert drafter.automaton.size == 0
        assert guess(drafter, tokens)[0] == [3, 4, 1, 2] and drafter.automaton.size == 7


class TestCopies:
    @pytest.mark.parametrize("depth", [1, 4, 12])
    @pytest.mark.parametrize("text", TEXTS)
    def test_the_longest_match_of_the_newest_places_against_a_scan(self, text, depth):
        drafter, after = begun(Copies(depth=depth), []), {}
        for size in range(1, len(text) + 1):
            tokens = text[:size]
            after.setdefault(tokens[-1], set())
            if size > 1:
                after[tokens[-2]].add(tokens[-1])
            places = [at for at in range(RUN, size) if tokens[at - RUN : at] == tokens[-RUN:]][::-1][:PLACES]
            lengths = [
                max(n for n in range(RUN, max(RUN, min(depth, at)) + 1) if tokens[at - n : at] == tokens[size - n :])
                for at in places
            ]
            found = max(zip(lengths, places, strict=True), default=None, key=lambda pair: pair[0])
            tree = grown(drafter, tokens)
            if found is None:
                assert len(tree) == 1
                continue
            match, at = found
            run = tokens[at:]
            while len(run) < depth:
                run += run
            assert tree.tokens[1:] == run[: min(match + 1, depth)]
            assert set(tree.matches[1:]) == {match}
            befores = [tokens[-1], *tree.tokens[1:-1]]
            assert tree.confidence[1:] == [9 + min(len(after[before]), 4) for before in befores]
        assert depth == 1 or len(text) < 20 or len(tree) > 1

    def test_two_tokens_that_repeat_are_no_match_and_a_banned_one_ends_the_chain(self):
        text = [1, 2, 3, 4, 5, 9, 2, 3]
        assert guess(begun(Copies(), text), text) == ([], [])
        text = [1, 2, 3, 4, 5, 9, 1, 2, 3]
        assert guess(begun(Copies(), text), text) == ([4, 5, 9, 1], [3, 3, 3, 3])
        assert guess(begun(Copies(banned={9}), text), text) == ([4, 5], [3, 3])

    def test_a_chain_ends_at_the_first_node_that_does_not_pay(self):
        text = [1, 2, 3, 4, 5, 9, 1, 2, 3]
        for least, nodes in ((0.0, 4), (0.9, 1), (0.7, 2), (0.5, 4)):
            assert len(guess(begun(Copies(judge=Strict(0.8, least)), text), text)[0]) == nodes

    def test_a_text_of_before_is_forgotten(self):
        """A method that had answered was asked about a shorter text, and looked for places that it has not."""
        for kind in (Copies, SuffixAutomaton):
            drafter = kind()
            assert guess(begun(drafter, [7, 8, 9] * 9), [7, 8, 9] * 9)[0][:3] == [7, 8, 9]
            text = [1, 2, 3, 4, 1, 2, 3]
            assert guess(begun(drafter, text), text) == guess(begun(kind(), text), text)
            assert guess(begun(drafter, [7, 8, 9]), [7, 8, 9]) == ([], [])

    def test_it_reads_what_was_written_since_it_was_asked(self):
        drafter, tokens = begun(Copies(), [4, 1, 2, 3]), [4, 1, 2, 3]
        for new in ([3, 4], [1, 2]):
            tokens = write(drafter, tokens, new)
        assert guess(drafter, [*tokens, 3])[0] == [3, 4, 1, 2, 3]
