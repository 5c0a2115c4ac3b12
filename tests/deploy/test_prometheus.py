"""Prometheus' and Alertmanager's files, read by their own tools; and what runbooks promise of each alert."""

import re
import subprocess
from pathlib import Path
from shutil import which
from typing import Any

import pytest
import yaml

from paceline.gpu.dcgm import FIELDS
from paceline.gpu.xids import XIDS

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "deploy" / "prometheus"
CASES = sorted((Path(__file__).parent / "rules").glob("*.yml"))
RUNBOOKS = ROOT / "docs" / "runbooks.md"
SEVERITIES = {"info", "warning", "critical"}


def rules(kind: str) -> list[dict[str, Any]]:
    """The rules of that kind, in order."""
    files = [yaml.safe_load(path.read_text()) for path in sorted((PROMETHEUS / "rules").glob("*.yml"))]
    return [rule for file in files for group in file["groups"] for rule in group["rules"] if kind in rule]


def tool(name: str, *arguments: str | Path) -> None:
    """Run a tool of Debian's packages; what it says where it finds something."""
    if which(name) is None:
        pytest.skip(f"no {name} here; fix: sudo apt-get install prometheus prometheus-alertmanager")
    done = subprocess.run([name, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.landing
@pytest.mark.slow
def test_prometheus_takes_its_configuration_and_rules() -> None:
    tool("promtool", "check", "config", "--lint-fatal", PROMETHEUS / "prometheus.yml")
    tool("promtool", "check", "rules", "--lint-fatal", *sorted((PROMETHEUS / "rules").glob("*.yml")))


@pytest.mark.slow
def test_alertmanager_takes_its_configuration() -> None:
    tool("amtool", "check-config", ROOT / "deploy" / "alertmanager" / "alertmanager.yml")


@pytest.mark.landing
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_rules_say_what_they_should(case: Path) -> None:
    tool("promtool", "test", "rules", case)


@pytest.mark.long
def test_every_rule_has_a_case_in_which_it_speaks() -> None:
    """Each alert fires in some case, and each recorded series has a value in one."""
    fired, recorded = set(), set()
    for case in CASES:
        for test in yaml.safe_load(case.read_text())["tests"]:
            for alert in test.get("alert_rule_test", []):
                fired |= {alert["alertname"]} if alert["exp_alerts"] else set()
            for asked in test.get("promql_expr_test", []):
                for sample in asked["exp_samples"]:
                    recorded.add(re.split(r"[{]", sample["labels"])[0])
                    fired |= set(re.findall(r'^ALERTS\{alertname="(\w+)"', sample["labels"]))
    assert {rule["alert"] for rule in rules("alert")} - fired == set()
    assert {rule["record"] for rule in rules("record")} - recorded == set()


@pytest.mark.long
def test_every_alert_says_how_grave_it_is_and_where_its_runbook_is() -> None:
    """A severity (of a finding its own), a source to route by, a summary, and a link to a section that is there."""
    sections = re.findall(r"^### (\w+)$", RUNBOOKS.read_text(encoding="utf-8"), re.M)
    assert sections == [rule["alert"] for rule in rules("alert")]
    for rule in rules("alert"):
        name, labels = rule["alert"], rule["labels"]
        assert labels["source"] in {"rule", "cost", "pipeline", "device"}, name
        assert labels.get("severity") in SEVERITIES or "severity" in rule["expr"], name
        assert rule["annotations"]["summary"], name
        page, anchor = rule["annotations"]["runbook_url"].split("#")
        assert (page.endswith("/docs/runbooks.md"), anchor) == (True, name.lower())


def test_runbooks_say_what_it_means_where_to_look_and_what_to_do() -> None:
    for section in RUNBOOKS.read_text(encoding="utf-8").split("\n### ")[1:]:
        assert re.findall(r"^- \*\*(\w+)\*\*", section, re.M) == ["Means", "Look", "Do"], section.split("\n")[0]


@pytest.mark.long
def test_names_of_dcgm_are_its_own() -> None:
    """Our numbers are recorded under names that DCGM has, with the unit's factor that the table of fields gives."""
    fields = {field.name: field for field in FIELDS}
    names = [rule for rule in rules("record") if rule["record"].startswith("DCGM_")]
    assert len(names) > 20
    for rule in names:
        field = fields[rule["record"]]
        times = re.search(r"\* (\d+),", rule["expr"])
        by = re.search(r"/ (\S+),", rule["expr"])
        factor = float(times[1]) if times else 1 / float(by[1]) if by else 1.0
        column = 1e6 if field.column.endswith("_mhz") else 1.0  # our metric is in hertz
        assert factor == pytest.approx(1 / field.factor / column), rule["record"]


def test_xids_that_wake_people_prove_a_fault() -> None:
    (rule,) = (rule for rule in rules("alert") if rule["alert"] == "PacelineGpuXid")
    told = {int(code) for code in re.findall(r"DCGM_FI_DEV_XID_ERRORS == (\d+)", rule["expr"])}
    assert told == {code for code, xid in XIDS.items() if xid.proof}
