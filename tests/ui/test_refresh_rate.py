"""How often pages are drawn anew, from what drawing them takes."""

from ui.refresh_rate import LONGEST_S, PAGES, SHORTEST_S, RefreshRate


def opened(pages: int, took_s: float) -> RefreshRate:
    """So many pages, each drawn once at second 0."""
    rate = RefreshRate()
    for page in range(pages):
        rate.drawn(str(page), took_s, 0.0)
    return rate


def test_some_pages_are_drawn_every_two_seconds() -> None:
    """Nobody waits for what there is room for."""
    assert RefreshRate().interval_s(0.0) == SHORTEST_S
    assert opened(5, 0.1).interval_s(0.0) == SHORTEST_S


def test_many_pages_are_drawn_less_often() -> None:
    """Half a processor is what all of them take; beyond a minute nobody waits."""
    assert opened(20, 0.09).interval_s(0.0) == 4.0
    assert opened(100, 0.09).interval_s(0.0) == 32.0
    assert opened(PAGES, 10.0).interval_s(0.0) == LONGEST_S


def test_a_page_that_is_drawn_again_counts_once() -> None:
    """By what it took last."""
    rate = opened(1, 3.0)
    rate.drawn("0", 0.1, 1.0)
    assert (rate.pages(1.0), rate.interval_s(1.0)) == (1, SHORTEST_S)


def test_closed_pages_are_forgotten() -> None:
    """Those that are left are drawn as often as before, once."""
    rate = opened(20, 0.09)
    assert rate.interval_s(0.0) == 4.0
    rate.drawn("0", 0.09, 12.5)
    assert (rate.interval_s(12.5), rate.pages(12.5)) == (SHORTEST_S, 1)


def test_it_does_not_swing() -> None:
    """A little less than what made it longer is not enough to make it shorter again."""
    rate = opened(11, 0.1)
    assert rate.interval_s(0.0) == 4.0
    for page in range(11):
        rate.drawn(str(page), 0.08, 4.0)
    assert rate.interval_s(4.0) == 4.0


def test_pages_are_bounded() -> None:
    """Whoever opens a thousand more pushes out the oldest."""
    assert opened(PAGES + 5, 0.0).pages(0.0) == PAGES
