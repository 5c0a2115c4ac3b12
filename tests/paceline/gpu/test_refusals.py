from paceline.gpu.refusals import RETRY_S, RETRY_SOON_S, Refusals


def test_a_refused_question_waits():
    """A question that was refused is not due again before the retry time, and is due then."""
    refusals = Refusals()
    refusals.refused("power", "no permission", 100.0)

    assert [refusals.due("power", 100.0 + after) for after in (0, RETRY_S - 1, RETRY_S)] == [False, False, True]


def test_a_passing_cause_is_retried_soon():
    """A busy driver is asked again within seconds."""
    refusals = Refusals()
    refusals.refused("power", "timeout", 100.0, passing=True)

    assert refusals.due("power", 100.0 + RETRY_SOON_S)


def test_an_answer_clears_the_reason():
    """Once answered, a question has no reason any more and is due at once."""
    refusals = Refusals()
    refusals.refused("power", "no permission", 100.0)
    refusals.answered("power")

    assert refusals.reason("power") is None
    assert refusals.due("power", 100.1)


def test_the_same_refusal_is_news_once():
    """Only a first refusal, or one for another reason, is news."""
    refusals = Refusals()

    assert [refusals.refused("power", why, 1.0) for why in ("a", "a", "b")] == [True, False, True]
