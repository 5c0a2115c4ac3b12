"""History in a real Chromium: a real archive, a real `paceline ui`, and no broker."""

import re
import time

import pytest
from playwright.sync_api import expect

from experiments.chromium import current
from experiments.tour.visitor import downloaded
from tests.ui.browsing import shows
from tests.ui.kept import DAY_S, keep, three_weeks

pytestmark = pytest.mark.browser


def test_a_day_is_clicked_a_job_is_opened_and_all_of_it_is_in_the_address(tab, serve, free_port, tmp_path):
    """From the month to a day to a job to its whole history, on a window of any width, without a broker."""
    now_s = time.time()
    keep(tmp_path / "archive", three_weeks(now_s))
    _, url = serve(f"127.0.0.1:{free_port()}", PACELINE_ARCHIVE=str(tmp_path / "archive"))
    tab.goto(f"{url}/history?past=30d")
    shows(tab, "11 findings in this period")

    day = time.strftime("%Y-%m-%d", time.gmtime(now_s - 4 * DAY_S))
    tab.goto(f"{url}/history?month={day[:7]}&past=30d")
    shows(tab, "11 findings in this period")
    drawn = "day => document.querySelector('.js-plotly-plot')?.data?.[1]?.customdata?.includes(day)"
    tab.wait_for_function(drawn, arg=day)
    places = tab.locator(".js-plotly-plot").first
    days = places.evaluate("plot => plot.data[1].customdata")
    point = places.locator(".scatterlayer .point").nth(days.index(day))
    point.scroll_into_view_if_needed()
    box = point.bounding_box()
    tab.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tab.wait_for_url(re.compile(f"day={day}"))
    shows(tab, "1 finding in this period")
    shows(tab, "Rank 4 needs 1.8 times the median rank's time.", ".st-key-history_findings")

    current(tab, ".st-key-history_jobs").get_by_role("link", name="llm-7b", exact=True).click()
    tab.wait_for_url(re.compile(r"/history\?job=llm-7b$"))
    shows(tab, "Job llm-7b", ".st-key-history_job")
    expect(current(tab, ".st-key-history_job").locator(".js-plotly-plot")).to_have_count(2)
    tab.reload()
    shows(tab, "Job llm-7b", ".st-key-history_job")
    findings = current(tab, ".st-key-history_findings")
    numbers = downloaded(tab, lambda: findings.get_by_role("button", name="CSV").click())
    assert numbers.startswith(b"time_s,cluster,job,")
    for width in (390, 1280, 1600):
        tab.set_viewport_size({"width": width, "height": 1000})
        tab.wait_for_function(f"document.querySelector('[data-testid=stMain]').scrollWidth <= {width}")
