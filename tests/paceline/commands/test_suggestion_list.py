"""Which suggestions are kept and shown, and in which words: also hostile ones."""

import pytest

from paceline import wire
from paceline.commands import suggestion_list
from paceline.commands.suggestion_list import SuggestionList, is_open, lines, no_single, ranked
from paceline.events import Effect, Gain, Suggestion

NOW_S = 1_700_000_000.0


def made(id_: str = "a", **fields: object) -> Suggestion:
    said: dict[str, object] = {
        "id": id_, "revision": 1, "cluster": "c", "action": "rebalance", "target": "job:j", "state": "new",
        "severity": "warning", "title": "t", "reason": "r", "created_s": NOW_S, "updated_s": NOW_S,
        "expires_s": NOW_S + 60,
    }  # fmt: skip
    return Suggestion(**(said | fields))  # type: ignore[arg-type]


def test_the_newest_revision_counts_whatever_the_order() -> None:
    """A revision that comes late, or twice, is no news."""
    held = SuggestionList()
    assert [held.hear(wire.encode(made(revision=number))) is not None for number in (2, 1, 2, 3)] == [
        True, False, False, True,
    ]  # fmt: skip
    assert held.held["a"].revision == 3


@pytest.mark.parametrize("value", [None, b"", b"{}", b"\xff", b"[]"])
def test_what_is_no_suggestion_is_passed_over(value: bytes | None) -> None:
    assert SuggestionList().hear(value) is None


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest stay."""
    monkeypatch.setattr(suggestion_list, "MOST", 3)
    held = SuggestionList()
    for number in range(10):
        held.hear(wire.encode(made(f"s{number}")))
    assert list(held.held) == ["s7", "s8", "s9"]


def test_the_order_is_that_of_what_it_brings() -> None:
    """What is not known counts as nothing; what costs comes last of what is open."""
    told = [
        made("loss", gain=Gain(gpu_hours_per_day=-3.0)),
        made("over", state="verified", gain=Gain(gpu_hours_per_day=90.0)),
        made("unknown"),
        made("share", gain=Gain(throughput_ratio=0.1)),
        made("grave", severity="critical"),
        made("large", gain=Gain(gpu_hours_per_day=30.0)),
    ]
    assert [one.id for one in ranked(told, NOW_S)] == ["large", "share", "grave", "unknown", "loss", "over"]


def test_a_beginning_finds_and_a_whole_id_wins() -> None:
    """As with commits of git."""
    held = SuggestionList()
    for id_ in ("b", "abc", "ab"):
        held.hear(wire.encode(made(id_)))
    assert [one.id for one in held.find("ab")] == ["ab"]
    assert [one.id for one in held.find("a")] == ["ab", "abc"]
    assert held.find("x") == []


def test_what_expired_unheard_is_over() -> None:
    """Though no worker has said so yet; what was accepted goes on to be measured."""
    assert not is_open(made(expires_s=NOW_S), NOW_S)
    assert is_open(made(expires_s=NOW_S, state="accepted"), NOW_S)
    assert is_open(made(state="of a newer version"), NOW_S)
    assert "a  expired, " in lines(made(expires_s=NOW_S), NOW_S)[0]


def test_everything_that_is_known_is_shown() -> None:
    """Risk, steps, commands, who decided, and what was measured."""
    one = made(
        gain=Gain(throughput_ratio=0.25, throughput_low=0.2, throughput_high=0.3, money_per_day=12.0, currency="EUR"),
        risk="high", risk_reason="it restarts", steps=["look"], apply=["kubectl cordon n"], by="ada", because="yes",
        effect=Effect(name="step_median", unit="s/step", before=0.2, after=0.15, before_s=30.0, after_s=30.0),
    )  # fmt: skip
    assert lines(one, NOW_S + 60.0) == [
        "a  expired, 60 s ago  +25 % throughput (20 % to 30 %), +12 EUR a day",
        "    t",
        "    r",
        "    risk high: it restarts",
        "    - look",
        "    $ kubectl cordon n",
        "    by ada: yes",
        "    measured: step_median 0.2 s/step before, 0.15 s/step after",
    ]


def test_a_decision_without_a_reason_names_who_decided() -> None:
    assert lines(made(by="ada"), NOW_S)[-1] == "    by ada"


def test_a_long_one_is_cut() -> None:
    """Lines, and what is in a line."""
    told = lines(made(title="x" * 10_000, steps=["s"] * 1000), NOW_S)
    assert len(told) == suggestion_list.MOST_LINES + 1
    assert max(map(len, told)) == suggestion_list.LONGEST
    assert "more lines: --json has all of it" in told[-1]


@pytest.mark.parametrize(
    ("start", "found", "there", "said"),
    [
        ("4f2", [], [], "no suggestion's id begins with '4f2', and nothing is suggested; --all shows what is over"),
        ("0ab13c", [], ["zz", "0ab12c"], "no suggestion's id begins with '0ab13c'; did you mean '0ab12c'?"),
        ("nope", [], ["0ab12c", "77d"], "no suggestion's id begins with 'nope'; there are 0ab12c, 77d"),
        ("nope", [], [f"{n}0{n}" for n in range(7)], "there are 000, 101, 202, 303, 404 and 2 more: --all lists them"),
        ("7", ["71", "72"], ["71", "72"], "2 suggestions begin with '7': 71, 72"),
        ("7", [f"7{n}" for n in range(7)], [], "7 suggestions begin with '7': 70, 71, 72, 73, 74, …"),
    ],
)
def test_an_id_that_names_none_or_several_is_told_which_there_are(
    start: str, found: list[str], there: list[str], said: str
) -> None:
    """What was meant where that is near; the first few else."""
    assert no_single(start, [made(id_) for id_ in found], [made(id_) for id_ in there]).endswith(said)


def test_an_id_of_any_length_takes_no_time() -> None:
    """Ids come from other processes, and the beginning from a terminal."""
    text = no_single("x" * 1_000_000, [], [made("y" * 100_000), made("x" * 99_000)])
    assert text.startswith("no suggestion's id begins with 'xxx")
    assert text.endswith("xxx'?")
