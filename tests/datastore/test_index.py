"""The index against a brute-force count, byte for byte the same when built again, and what an open store answers."""

import errno
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from words import letters

from spectra.datastore.build.index import build_index
from spectra.datastore.language import Language, query
from spectra.datastore.layout import CORPUS, TEXT, TEXTS, TRIE
from spectra.datastore.store import Store
from spectra.drafters.continuations import continuations, successors
from spectra.drafters.near_certain import key_of
from spectra.errors import SpectraError

HEADER, ENDING, WORDS = (90, 91), 99, 100


def texts_of(dice, count=30, words=6):
    return [[dice.randrange(words) for _ in range(dice.randrange(1, 25))] for _ in range(count)]


def open_index(folder, texts, order=4, most=8, vocabulary=WORDS):
    facts = build_index(
        texts, folder, vocabulary=vocabulary, order=order, successors=most, header=HEADER, banned=(ENDING,)
    )
    return Store(folder, {"index": facts.to_dict(), "refined": True})


def followers(texts, context):
    """What followed `context` in the texts, counted one position at a time."""
    found = Counter()
    for text in texts:
        whole = [*HEADER, *text]
        for at in range(max(len(context), len(HEADER)), len(whole)):
            if whole[at - len(context) : at] == list(context) and whole[at] != ENDING:
                found[whole[at]] += 1
    return found


def test_every_answer_is_what_a_count_by_hand_gives(tmp_path):
    dice = random.Random(1)
    texts = texts_of(dice)
    store = open_index(tmp_path, texts)
    shorter = 0
    for _ in range(150):
        context = [dice.randrange(7) for _ in range(dice.randrange(1, 8))]
        match, seen, pairs = store.successors(context)
        longest = max((k for k in range(1, 5) if k <= len(context) and followers(texts, context[-k:])), default=0)
        assert match <= longest
        if longest == 0:
            assert pairs == []
            continue
        by_hand = followers(texts, context[-match:])
        assert dict(pairs) == by_hand
        assert seen == by_hand.total()
        assert [count for _, count in pairs] == sorted(by_hand.values(), reverse=True)
        if match < longest:  # it stops where a longer context could say nothing new
            shorter += 1
            assert len(pairs) == 1
            assert followers(texts, context[-longest:]).keys() == by_hand.keys()
    assert shorter


def test_the_first_words_of_a_text_follow_the_header(tmp_path):
    store = open_index(tmp_path, [[5, 6], [5, 7], [8]])
    assert store.successors([1, 2, *HEADER]) == (2, 3, [(5, 2), (8, 1)])


def test_a_context_never_reaches_into_the_text_before(tmp_path):
    store = open_index(tmp_path, [[1, 2, 3], [4, 5, 6], [9, 5, 7]], order=8)
    assert store.successors([3, 90, 91, 4])[:2] == (1, 1)
    assert store.successors([4, 5])[2] == [(6, 1)]


def test_an_ending_is_never_predicted(tmp_path):
    store = open_index(tmp_path, [[1, 2, ENDING]] * 3)
    assert store.successors([1, 2]) == (0, 0, [])


def test_only_the_most_frequent_are_kept_and_the_times_seen_stay_true(tmp_path):
    store = open_index(tmp_path, [[1, word] for word in (2, 2, 2, 3, 3, 4)], most=2)
    assert store.successors([1]) == (1, 6, [(2, 3), (3, 2)])


def test_counts_past_sixteen_bits_keep_their_proportion(tmp_path):
    store = open_index(tmp_path, [np.tile([1, 2, 1, 3, 1, 2], 40_000)])
    _, seen, pairs = store.successors([7, 1])
    assert [word for word, _ in pairs] == [2, 3]
    assert pairs[0][1] / seen == pytest.approx(2 / 3, abs=0.01)


def test_ids_over_sixteen_bits_and_invalid_text_bytes(tmp_path):
    big = 0xDFFF0A00
    store = open_index(tmp_path, [[0, big, 10, big, 7]], vocabulary=1 << 32)
    assert store.successors([big, 10]) == (1, 1, [(big, 1)])
    assert store.successors([0, big])[0] == 2


def test_the_same_texts_give_the_same_bytes(tmp_path):
    texts = texts_of(random.Random(2))
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
        open_index(folder, texts)
    for path in folders[0].iterdir():
        assert path.read_bytes() == (folders[1] / path.name).read_bytes()


def test_nothing_to_index_is_said(tmp_path):
    with pytest.raises(ValueError, match="no text"):
        build_index([[]], tmp_path, vocabulary=WORDS)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_what_is_told(tmp_path):
    """The trie's own writer raised a RuntimeError that names a line of its source."""
    (tmp_path / TRIE).symlink_to("/dev/full")
    with pytest.raises(OSError) as caught:
        build_index([[1, 2, 3]], tmp_path, vocabulary=WORDS)
    assert caught.value.errno == errno.ENOSPC


def test_damaged_files_do_not_open(tmp_path):
    open_index(tmp_path, [[1, 2, 3]])
    card = {"index": {"order": 4}}
    np.save(tmp_path / "totals.npy", np.zeros(9, np.uint16))
    with pytest.raises(SpectraError, match="do not fit together"):
        Store(tmp_path, card)
    open_index(tmp_path, [[1, 2, 3]])
    for name in ("successors.npy", "counts.npy"):
        np.save(tmp_path / name, np.append(np.load(tmp_path / name), [1, 1]).astype(np.load(tmp_path / name).dtype))
    with pytest.raises(SpectraError, match="do not fit together"):
        Store(tmp_path, card)
    (tmp_path / TRIE).write_bytes(b"no trie")
    with pytest.raises(SpectraError, match="build it again"):
        Store(tmp_path, card)


@pytest.mark.parametrize(("was", "becomes"), [(b"}", b" "), (b"'<u2'", b"'>u2'")])
@pytest.mark.parametrize("name", ["counts.npy", "successors.npy", "totals.npy"])
def test_a_damaged_header_does_not_open(tmp_path, name, was, becomes):
    """The bytes of a large store are not checked: numpy read it as a piece of Python that has no end."""
    open_index(tmp_path, [[1, 2, 3]])
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole.replace(was, becomes, 1))
    assert (tmp_path / name).read_bytes() != whole
    with pytest.raises(SpectraError, match="build it again"):
        Store(tmp_path, {"index": {"order": 4}})


def test_a_run_is_of_one_text_and_a_perplexity_of_those_that_are_known(tmp_path):
    store = open_index(tmp_path, [[3, 1], [2, 9], [1, 2]])
    np.save(tmp_path / CORPUS, np.array([3, 1, 2, 9, 1, 2], np.uint32))
    np.save(tmp_path / TEXTS, np.array([(0, 2, 2.5, b""), (2, 2, np.nan, b""), (4, 2, 3.5, b"")], TEXT))
    assert store.texts_with([1, 2]) == (1, 1, 3.5)  # the first one goes over into the next text
    assert store.texts_with([2]) == (2, 2, 3.5)
    assert store.texts_with([2, 9]) == (1, 1, None)
    assert store.texts_with([9, 1]) == (0, 0, None)


def test_continuations_are_a_tree_with_chances_that_only_fall(tmp_path):
    store = open_index(tmp_path, texts_of(random.Random(3), words=3), order=3)
    nodes = store.continuations([0, 1], 20)
    assert len(nodes) == 20
    for place, node in enumerate(nodes):
        before = nodes[node.parent].chance if node.parent >= 0 else 1.0
        assert node.parent < place
        assert node.chance == pytest.approx(before * node.times / (node.seen + 1))
    assert [node.chance for node in nodes] == sorted((node.chance for node in nodes), reverse=True)
    assert len({(node.parent, node.token) for node in nodes}) == len(nodes)


def test_a_query_tells_what_of_its_text_matched_and_not_what_was_guessed_before(tmp_path):
    """The match of a guess of several tokens had those before its last one in it."""
    store = open_index(tmp_path, texts_of(random.Random(3), words=3), order=3)
    found = query(store, Language(letters(), ""), "a", 8)
    assert {one.match for one in found} == {1}
    assert max(one.node.match for one in found) == 3 and min(len(one.text) for one in found) > 1


def test_the_store_with_the_longest_match_answers_and_equal_ones_add_up(tmp_path):
    stores = []
    for name, texts in (("a", [[1, 2, 3], [4, 2, 6]]), ("b", [[7, 2, 3], [8, 2, 5]])):
        (tmp_path / name).mkdir()
        stores.append(open_index(tmp_path / name, texts))
    assert successors(stores, [1, 2]) == (2, 1, [(3, 1)])
    assert successors(stores, [9, 2]) == (1, 4, [(3, 2), (5, 1), (6, 1)])
    assert successors(stores, [9]) == (0, 0, [])
    assert [node.token for node in continuations(stores, [9, 2], 3)] == [3, 5, 6]
    assert continuations([], [1], 3) == []


def test_more_successors_than_a_byte_counts_are_refused(tmp_path):
    with pytest.raises(ValueError, match="255"):
        build_index([[1, 2]], tmp_path, vocabulary=WORDS, successors=256)


def test_runs_are_found_across_blocks(tmp_path):
    texts = [[first, second] for first in range(60) for second in range(first % 5 + 1)]
    store = open_index(tmp_path, texts, order=1, most=255)
    for first in range(60):
        assert store.successors([first]) == (1, first % 5 + 1, [(second, 1) for second in range(first % 5 + 1)])


def test_it_tells_what_followed_its_contexts_most_often(tmp_path):
    dice = random.Random(3)
    store = open_index(tmp_path, [[*text, *[1, 2, 3] * 3] for text in texts_of(dice)])
    tops = list(store.ending_with(b""))
    assert len(tops) == len({top.key for top in tops}) == len(store)
    for top in tops:
        context = np.frombuffer(top.key, ">u4")[::-1].tolist()
        match, seen, pairs = store.successors(context)
        assert (match, seen, pairs[0]) == (len(context), top.seen, (top.token, top.times))
        assert store.top(top.key) == top
    two = key_of([2])
    assert list(store.ending_with(two)) == [top for top in tops if top.key.startswith(two)]
    assert store.top(key_of([7, 7])) is None and list(store.ending_with(key_of([7, 7]))) == []
    likely = list(store.likeliest(0.7, 1000))
    assert {top.key for top in likely} == {top.key for top in tops if top.chance >= 0.7} != set()
    assert [top.seen for top in likely] == sorted((top.seen for top in likely), reverse=True)
    assert list(store.likeliest(0.7, 3)) == likely[:3]
