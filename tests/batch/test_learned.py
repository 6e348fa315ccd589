"""What a batch learns from its own passes."""

from spectra.batch.learned import DraftingWorth

PAYS = {"drafting": 0.001, "forward": 0.01, "plain": 0.9, "accepted": 1.0}
COSTS = PAYS | {"accepted": 0.0}


def asked(worth, steps, outcome):
    """The steps, counted from 1, at which drafters are asked, each with this outcome."""
    found = []
    for step in range(1, steps + 1):
        if worth.asks():
            worth.learn(**outcome)
            found.append(step)
    return found


def test_drafters_that_pay_are_asked_at_every_step():
    assert asked(DraftingWorth(), 100, PAYS) == list(range(1, 101))


def test_drafters_that_do_not_pay_are_asked_more_and_more_rarely():
    steps = asked(DraftingWorth(), 8 + 8 + 16 + 32 + 32, COSTS)
    assert steps == [1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 96]


def test_a_question_that_paid_brings_the_next_one_near():
    worth = DraftingWorth()
    asked(worth, 8 + 8 + 16 + 32, COSTS)
    worth.learn(**PAYS | {"accepted": 0.3})
    assert asked(worth, 32, COSTS)[0] == 8
