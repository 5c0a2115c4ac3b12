import datetime
from itertools import pairwise

import pytest

from ui.figure_frame import as_csv
from ui.history_figures import Day, Episode, calendar, timeline
from ui.theme import DARK, LIGHT

NOVEMBER = datetime.date(2026, 11, 1)
LOST = {datetime.date(2026, 11, 3): Day(12.0, 3600.0, 2), datetime.date(2026, 11, 4): Day(0.0, 0.0, 1)}
KEPT = frozenset({"2026-11-02", "2026-11-03", "2026-11-04"})


def drawn(first=NOVEMBER, lost=LOST, kept=KEPT, chosen=None):
    return calendar(first, lost, kept, chosen, DARK)


@pytest.mark.long
@pytest.mark.parametrize(
    ("first", "weeks"), [("2026-11-01", 6), ("2027-02-01", 4), ("2024-02-01", 5), ("1971-01-01", 5)]
)
def test_a_month_has_a_tile_for_each_of_its_days(first, weeks):
    """Weeks begin on Monday; each day can be clicked, and no other."""
    begin = datetime.date.fromisoformat(first)
    figure = drawn(begin, {}, frozenset())
    days = [datetime.date.fromisoformat(day) for day in figure.data[1].customdata]
    assert days[0] == begin
    assert all((later - day).days == 1 for day, later in pairwise(days))
    assert (days[-1] + datetime.timedelta(days=1)).day == 1
    assert len(figure.data[0].z) == weeks
    assert [figure.data[1].x[at] for at in (0, 7)] == [f"{begin:%a}"] * 2


@pytest.mark.slow
def test_nothing_lost_is_not_nothing_kept():
    """A day that the archive has and lost nothing on is 0; one that it has not has no colour, and says so."""
    figure = drawn()
    values = {day: figure.data[0].z[row][day_at] for day, row, day_at in (("1", 0, 6), ("2", 1, 0), ("3", 1, 1))}
    assert values["1"] != values["1"]
    assert (values["2"], values["3"]) == (0.0, 12.0)
    assert "nothing is kept of this day" in figure.data[1].hovertext[0]
    assert "no finding" in figure.data[1].hovertext[1]
    assert "12.0 device-hours" in figure.data[1].hovertext[2]
    assert "1 finding" in figure.data[1].hovertext[3]


@pytest.mark.slow
def test_the_chosen_day_has_a_frame():
    """Of another month, none has."""
    assert len(drawn(chosen=datetime.date(2026, 11, 3)).layout.shapes) == 1
    assert len(drawn(chosen=datetime.date(2026, 10, 3)).layout.shapes) == 0


@pytest.mark.long
@pytest.mark.parametrize("palette", [DARK, LIGHT])
def test_a_month_without_any_loss_recedes(palette):
    """The lowest colour is that of the panel's middle, whatever the appearance."""
    figure = calendar(NOVEMBER, {}, KEPT, None, palette)
    assert figure.data[0].zmax > figure.data[0].zmin == 0.0
    assert figure.data[0].colorscale[0] == (0.0, dict(palette.ratio_scale)[0.5])
    assert figure.data[0].colorscale[-1] == (1.0, palette.ratio_scale[-1][1])


EPISODES = [
    Episode("Straggler: rank 1, <b>x</b>", "confirmed", 1000.0, 1000.0, "1.00 device-hours"),
    Episode("Hang: rank 2" + " and on" * 40, "under_review", 2000.0, 9000.0, "-"),
]


def test_an_episode_of_one_moment_is_wide_enough_to_be_seen():
    """Its real end is told by no bar that is longer than it was."""
    short, long_one = timeline(EPISODES, (0.0, 10_000.0), DARK).data
    assert short.x[0] == pytest.approx(60_000.0)
    assert long_one.x[0] == pytest.approx(7_000_000.0)


def test_names_on_a_timeline_are_text_and_bounded():
    """States of a later version are shown in their own words."""
    figure = timeline(EPISODES, (0.0, 10_000.0), DARK)
    assert "<b>x" not in str(figure.layout.yaxis.ticktext) + str(figure.data[0].hovertext).replace("<b>Straggler", "")
    assert max(map(len, figure.layout.yaxis.ticktext)) < 60
    assert [trace.name for trace in figure.data] == ["confirmed", "under_review"]
    assert as_csv(figure).startswith(b"series,")
