"""What dashboards and rules ask of a Prometheus: each expression, and where it stands.

Rule of this file: it reads the files that are shipped. Variables stand for all, or for one job where a panel wants one.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ..processes import ROOT

DASHBOARDS = ROOT / "deploy" / "grafana" / "dashboards"
RULES = ROOT / "deploy" / "prometheus" / "rules"
_LABEL_VALUES = re.compile(r"label_values\((.+), (\w+)\)")
#: Names of metrics and of recorded series, as they stand in front of a selector, an operator or an end.
_METRIC = re.compile(r"(?<![\w:\"])((?:\w+:)?(?:paceline|DCGM_FI)_\w+(?::\w+)*)")


class Asked(NamedTuple):
    """An expression and where it stands."""

    where: str
    expression: str


def of_dashboards(job: str, folder: Path = DASHBOARDS) -> Iterator[Asked]:
    """Every panel's expressions, every annotation's and every variable's, with ``job`` chosen."""
    for file in sorted(folder.glob("*.json")):
        board = json.loads(file.read_text(encoding="utf-8"))
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                yield Asked(f"{file.stem}: ${variable['name']}", chosen(_values(variable["query"]["query"]), job))
        for note in board["annotations"]["list"]:
            yield Asked(f"{file.stem}: annotation", chosen(note["target"]["expr"], job))
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                yield Asked(f"{file.stem}: {panel['title']}", chosen(target["expr"], job))


def chosen(expression: str, job: str) -> str:
    """``expression`` with its variables chosen: all where several may be, else ``job``.

    >>> chosen('ranks{training_job="$job", node=~"$host"}', "resnet")
    'ranks{training_job="resnet", node=~".*"}'
    """
    expression = re.sub(r'=~"\$\w+"', '=~".*"', expression)
    expression = re.sub(r'="\$job"', f'="{job}"', expression)
    if "$" in expression:
        raise ValueError(f"a variable that is not known: {expression}")
    return expression


def _values(query: str) -> str:
    """What Grafana lists for a variable, as an expression."""
    found = _LABEL_VALUES.fullmatch(query)
    if found is None:
        raise ValueError(f"a variable that is not label_values(metric, label): {query}")
    metric, label = found.groups()
    selected = f'{metric[:-1]}, {label}!=""}}' if metric.endswith("}") else f'{metric}{{{label}!=""}}'
    return f"count by ({label}) ({selected})"


def _rules(kind: str) -> Iterator[dict[str, Any]]:
    for file in sorted(RULES.glob("*.yml")):
        for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]:
            yield from (rule for rule in group["rules"] if kind in rule)


def recorded() -> list[Asked]:
    """Every series that a recording rule makes, and that no exporter could have told."""
    return [
        Asked(f"recording rule {rule['record']}", _selected(rule["record"], rule.get("labels", {})))
        for rule in _rules("record")
    ]


def _selected(name: str, labels: dict[str, str]) -> str:
    selectors = ", ".join(f'{label}="{value}"' for label, value in labels.items())
    return f"{name}{{{selectors}}}" if labels else name


def alerted() -> list[Asked]:
    """Every alert's expression: of the metrics that it names each must be there, though it does not fire."""
    return [Asked(f"alert {rule['alert']}", rule["expr"]) for rule in _rules("alert")]


def metrics(expression: str) -> list[str]:
    """The metrics that ``expression`` names.

    >>> metrics('sum(topic:paceline_lag:sum) / rate(paceline_x_total{a="paceline_b"}[5m])')
    ['paceline_x_total', 'topic:paceline_lag:sum']
    """
    return sorted(set(_METRIC.findall(expression)))
