"""A job's balancer, where it has one: the split, what it was to bring and what it brought, times, and every plan."""

from datetime import tzinfo
from functools import partial

import numpy as np
import streamlit as st

from paceline import words
from paceline.balance_gain import RECENT, reacted

from .. import balance_figures
from ..balance_book import BalanceView, FollowedPlan
from ..figure_frame import written
from ..moments import clock, local, zone_of
from ..stretches import in_stretch, moment_of, newest, nothing_between
from ..wording import Cell, ratio, table
from . import charts, summary
from .frame import Shown

#: Plans that are listed, and ranks of one whose shares are.
LISTED, NAMED = 12, 8
_DECIDES = {"inband": "its ranks among themselves", "kafka": "the stream processors"}


def draw(shown: Shown, balance: BalanceView) -> None:
    """The whole section."""
    st.html('<div class="pl"><h2>Balance</h2></div>')
    _tiles(balance)
    left, right = st.columns([1, 1.4], gap="medium")
    with left:
        _split(shown, balance)
    with right:
        _times(shown, balance)
    _log(shown, balance)


def _tiles(balance: BalanceView) -> None:
    """The plan that is followed, the measured and predicted step time under it, and the step time before it."""
    plan = balance.plans[-1] if balance.plans else None
    recent = balance.step_s[balance.version == balance.version[-1]][-RECENT:] if balance.version.size else None
    now_s = None if recent is None or not np.isfinite(recent).any() else float(np.nanmedian(recent))
    before, before_s = _before(balance)
    predicted_s = plan.event.predicted_step_s if plan is not None else None
    off = "" if now_s is None or not predicted_s else f"measured: {ratio(now_s / predicted_s)} of it"
    gain = "" if now_s is None or not before_s else f"now {ratio(now_s / before_s)} of it"
    since = "" if plan is None else f"since batch {plan.event.first_batch:,}, made by {plan.event.made_by}"
    decides = _DECIDES.get(balance.source, balance.source or "an unknown source")
    version = str(plan.event.version) if plan is not None else words.NONE
    tiles = [
        summary.tile("Plan", (version, ""), since),
        summary.tile("Slowest rank computes", words.seconds_parts(now_s), f"{balance.mode}, decided by {decides}"),
        summary.tile("Predicted by the plan", words.seconds_parts(predicted_s), off),
        summary.tile(before, words.seconds_parts(before_s), gain),
    ]
    st.html(f'<div class="pl"><div class="pl-tiles">{"".join(tiles)}</div></div>')


def _before(balance: BalanceView) -> tuple[str, float | None]:
    """What a step took before the plan that reacted, and what that time is called: not the warm-up's, if it is held."""
    plan = reacted(one.event for one in balance.plans)
    if plan is not None:
        return f"Before plan {plan.version}", plan.measured_step_s
    return "Before it was balanced", balance.plans[0].took_s if balance.plans else None


def _split(shown: Shown, balance: BalanceView) -> None:
    proposed = balance.proposed
    figure = balance_figures.split(balance.shares, None if proposed is None else proposed.shares, shown.palette)
    text = f"Samples of {len(balance.shares):,} ranks, {int(balance.shares.sum()):,} a batch."
    if len(balance.shares) > balance_figures.BARS:
        text += f" The {balance_figures.BARS} furthest from an equal share."
    text += "" if proposed is None else f" Plan {proposed.event.version} is proposed and not yet followed by all ranks."
    head = ("rank", "samples now", "samples proposed")
    rows = zip(
        range(len(balance.shares)),
        balance.shares,
        [""] * len(balance.shares) if proposed is None else proposed.shares,
        strict=True,
    )
    charts.draw(figure, "balance-split", shown.link, caption=text, numbers=partial(written, head, list(rows)))


def _times(shown: Shown, balance: BalanceView) -> None:
    if balance.at_s.size == 0:
        st.caption("No times of ranks have been received yet.")
        return
    kept = in_stretch(balance.at_s, shown.link.stretch(newest(balance.at_s)))
    if not kept.any():
        st.caption(nothing_between(balance.at_s))
        return
    batch = balance.batch[kept]
    figure = balance_figures.times(batch, balance.ready_s[:, kept], balance.plans, shown.palette)
    text = "From the start of a rank's forward to its last gradient, without waiting. Dashed: a new plan."
    zoom = partial(moment_of, batch, balance.at_s[kept])
    charts.draw(figure, "balance-times", shown.link, zoom=zoom, caption=text)


def _log(shown: Shown, balance: BalanceView) -> None:
    """Every plan, the newest first, and the proposed one above them."""
    if not (balance.plans or balance.proposed):
        st.caption("No plan yet: ranks take equal shares until their speeds are known.")
        return
    lines = [*balance.plans, *([balance.proposed] if balance.proposed else [])][::-1]
    zone, now_s = zone_of(st.context.timezone), shown.snapshot.now_s
    head = [("time", ""), ("plan", "n"), ("from batch", "n"), ("why", ""), ("step before", "n"), ("predicted", "n")]
    head += [("took", "n"), ("samples", "")]
    rows = [[(_time(one.event.time_s, now_s, zone), ""), *_row(one)] for one in lines[:LISTED]]
    st.html(table(head, rows))
    text, button = st.columns([6, 1], vertical_alignment="top")
    text.caption(f"and {len(lines) - LISTED} older plans" if len(lines) > LISTED else "")
    with button:
        charts.csv_button(partial(numbers, lines), "balance-plans")


def _time(time_s: float, now_s: float, zone: tzinfo) -> str:
    """To the second, for plans may follow each other within a minute; of another day with its date."""
    there, here = local(time_s, zone), local(now_s, zone)
    same_day = there is not None and here is not None and there.date() == here.date()
    return f"{there:%H:%M:%S}" if same_day else clock(time_s, now_s, zone)


def _row(one: FollowedPlan) -> list[Cell]:
    plan = one.event
    return [
        (str(plan.version), "n"),
        ("proposed" if plan.first_batch is None else f"{plan.first_batch:,}", "n"),
        (plan.reason or "-", ""),
        (words.seconds(plan.measured_step_s), "n"),
        (words.seconds(plan.predicted_step_s), "n"),
        (words.seconds(one.took_s), "n"),
        (_shares(one), ""),
    ]


def _shares(one: FollowedPlan) -> str:
    if len(one.shares) <= NAMED:
        return " ".join(f"{share:,}" for share in one.shares)
    least, most = int(one.shares.argmin()), int(one.shares.argmax())
    return f"{one.shares[least]:,} (rank {least}) to {one.shares[most]:,} (rank {most})"


def numbers(lines: list[FollowedPlan]) -> bytes:
    """Every plan as CSV, with all of its shares."""
    head = ("time_s", "version", "first_batch", "reason", "measured_step_s", "predicted_step_s", "took_s", "made_by")
    rows = (
        [
            one.event.time_s,
            one.event.version,
            "" if one.event.first_batch is None else one.event.first_batch,
            one.event.reason,
            "" if one.event.measured_step_s is None else one.event.measured_step_s,
            "" if one.event.predicted_step_s is None else one.event.predicted_step_s,
            "" if one.took_s is None else one.took_s,
            one.event.made_by,
            " ".join(map(str, one.shares)),
        ]
        for one in lines
    )
    return written((*head, "shares"), rows)
