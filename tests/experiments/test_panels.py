"""What is asked of Prometheus, and of which: everything that is shipped, with nothing left out in silence."""

import json
from pathlib import Path

import pytest
import yaml

from experiments.panels import asked
from experiments.panels.stack import here

ROOT = Path(__file__).parents[2]
PLACES = {
    "paceline-streams": [1, 2], "paceline-forecaster": [3], "paceline-collectors": [4], "paceline-alerts": [5],
    "paceline-ui": [6], "paceline-control": [9], "paceline-archive": [10], "prometheus": [7], "alertmanager": [8],
}  # fmt: skip


def test_every_question_of_every_dashboard_is_asked() -> None:
    """As many as there are targets, annotations and variables in the files."""
    boards = [json.loads(path.read_text()) for path in asked.DASHBOARDS.glob("*.json")]
    targets = sum(len(panel.get("targets", ())) for board in boards for panel in board["panels"])
    notes = sum(len(board["annotations"]["list"]) for board in boards)
    variables = sum(one["type"] == "query" for board in boards for one in board["templating"]["list"])
    assert len(list(asked.of_dashboards("j"))) == targets + notes + variables > 80


def test_a_variable_that_is_not_known_is_no_question() -> None:
    with pytest.raises(ValueError, match="not known"):
        asked.chosen('up{job="$place"}', "j")


@pytest.mark.long
def test_rules_are_asked_for_what_they_record_alone() -> None:
    """A series that an exporter has under the same name does not count."""
    assert 'DCGM_FI_DEV_GPU_UTIL{source="paceline"}' in [one.expression for one in asked.recorded()]
    assert all(asked.metrics(one.expression) or "up{" in one.expression for one in asked.alerted())


def test_prometheus_asks_all_that_the_shipped_one_asks() -> None:
    """The same jobs by the same paths, at ports of this machine; no name of compose is left."""
    shipped = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text())
    config = here(PLACES, 8)
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    assert set(jobs) | {"dcgm-exporter"} == {job["job_name"] for job in shipped["scrape_configs"]}
    assert jobs["paceline-ui"]["metrics_path"] == "/_stcore/metrics"
    targets = [target for job in jobs.values() for place in job["static_configs"] for target in place["targets"]]
    assert len(targets) == 10
    assert all(target.startswith("127.0.0.1:") for target in targets)
    assert not any("dns_sd_configs" in job for job in jobs.values())
