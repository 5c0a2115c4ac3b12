"""What our dashboards are made of: panels, rows, variables, and the JSON that Grafana reads.

Rule of this file: how things look, once for all four. What is asked stands in the file of each dashboard.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["timeseries", "stat", "table", "heatmap", "bargauge"]
#: Grafana's grid is so wide.
WIDTH = 24
#: The version of the dashboard's own format.
SCHEMA_VERSION = 39
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
#: From good to bad.
GREEN, ORANGE, RED = "green", "orange", "red"


@dataclass(frozen=True)
class Panel:
    """One panel: what it is called, what it asks (expression, legend), in which unit, and how large it is.

    ``bad`` are the values from which it is orange and red; with the smaller first, or the larger where low is bad.
    """

    title: str
    asks: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: Kind = "timeseries"
    width: int = 8
    height: int = 8
    help: str = ""
    stacked: bool = False
    highest: float | None = None
    bad: tuple[float, float] | None = None


def stat(
    title: str, expression: str, unit: str = "short", *, bad: tuple[float, float] | None = None, about: str = ""
) -> Panel:
    """One number, small."""
    return Panel(title, ((expression, ""),), unit, "stat", 4, 4, about, bad=bad)


def p95(buckets: str, label: str) -> str:
    """What 95 of 100 values of a histogram are below, over five minutes, by ``label``.

    >>> p95("wait_seconds_bucket", "route")
    'histogram_quantile(0.95, sum by (route, le) (rate(wait_seconds_bucket[5m])))'
    """
    return f"histogram_quantile(0.95, sum by ({label}, le) (rate({buckets}[5m])))"


@dataclass(frozen=True)
class Row:
    """A heading over panels."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Choice:
    """A variable: the values of ``label`` in ``metric``; of ``several``, all at first."""

    name: str
    title: str
    metric: str
    label: str
    several: bool = True


@dataclass(frozen=True)
class Dashboard:
    """All of one."""

    uid: str
    title: str
    about: str
    rows: tuple[Row, ...]
    choices: tuple[Choice, ...] = ()
    #: Where annotations of findings come from; "" where it has none.
    findings: str = ""
    tags: tuple[str, ...] = field(default=("paceline",))


def written(board: Dashboard) -> dict[str, Any]:
    """``board`` as Grafana's JSON."""
    return {
        "uid": board.uid,
        "title": board.title,
        "description": board.about,
        "tags": list(board.tags),
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "links": [_link()],
        "annotations": {"list": [_annotation(board.findings)] if board.findings else []},
        "templating": {"list": [_datasource(), *map(_choice, board.choices)]},
        "panels": _placed(board.rows),
    }


def _link() -> dict[str, Any]:
    return {
        "title": "Paceline",
        "type": "dashboards",
        "tags": ["paceline"],
        "asDropdown": False,
        "icon": "external link",
        "includeVars": False,
        "keepTime": True,
        "targetBlank": False,
        "tooltip": "",
        "url": "",
    }


def _annotation(expression: str) -> dict[str, Any]:
    return {
        "name": "Findings",
        "datasource": SOURCE,
        "enable": True,
        "iconColor": RED,
        "target": {"refId": "Findings", "expr": expression, "interval": "15s"},
        "titleFormat": "{{kind}}",
        "textFormat": "{{training_job}} {{node}}: {{cause}}",
        "tagKeys": "kind,cause,severity",
        "useValueForTime": False,
    }


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "refresh": 1}


def _choice(choice: Choice) -> dict[str, Any]:
    return {
        "name": choice.name,
        "label": choice.title,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": f"label_values({choice.metric}, {choice.label})", "refId": choice.name},
        "refresh": 2,
        "sort": 7,
        **(
            {"multi": True, "includeAll": True, "allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]}}
            if choice.several
            else {"multi": False, "includeAll": False}
        ),
    }


def _placed(rows: tuple[Row, ...]) -> list[dict[str, Any]]:
    """Panels from left to right, a new line where one is full, each row below the one before."""
    placed: list[dict[str, Any]] = []
    y = 0
    for row in rows:
        placed.append(
            {
                "id": len(placed) + 1,
                "type": "row",
                "title": row.title,
                "collapsed": False,
                "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1},
                "panels": [],
            }
        )
        x, y, height = 0, y + 1, 0
        for panel in row.panels:
            if x + panel.width > WIDTH:
                x, y, height = 0, y + height, 0
            placed.append(_panel(panel, len(placed) + 1, {"x": x, "y": y, "w": panel.width, "h": panel.height}))
            x, height = x + panel.width, max(height, panel.height)
        y += height
    return placed


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.help,
        "datasource": SOURCE,
        "gridPos": place,
        "targets": [_target(panel, at, *ask) for at, ask in enumerate(panel.asks)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _OPTIONS[panel.kind],
        **({"transformations": _TABLE} if panel.kind == "table" else {}),
    }


def _target(panel: Panel, at: int, expression: str, legend: str) -> dict[str, Any]:
    now = panel.kind in ("table", "bargauge", "stat")
    return {
        "refId": chr(ord("A") + at),
        "datasource": SOURCE,
        "expr": expression,
        "legendFormat": legend,
        "format": {"table": "table", "heatmap": "heatmap"}.get(panel.kind, "time_series"),
        "instant": now,
        "range": not now,
    }


def _defaults(panel: Panel) -> dict[str, Any]:
    made: dict[str, Any] = {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": _steps(panel)}}
    if panel.highest is not None:
        made |= {"min": 0, "max": panel.highest}
    if panel.kind == "timeseries":
        made["color"] = {"mode": "palette-classic"}
        made["custom"] = {
            "drawStyle": "line",
            "fillOpacity": 60 if panel.stacked else 8,
            "lineWidth": 1,
            "showPoints": "never",
            "spanNulls": False,
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        }
    else:
        made["color"] = {"mode": "thresholds"}
    return made


def _steps(panel: Panel) -> list[dict[str, Any]]:
    """Colours by value; the first has no bound."""
    if panel.bad is None:
        return [{"color": GREEN, "value": None}]
    orange, red = panel.bad
    if orange <= red:
        return [
            {"color": GREEN, "value": None},
            {"color": ORANGE, "value": orange},
            {"color": RED, "value": red},
        ]
    return [{"color": RED, "value": None}, {"color": ORANGE, "value": red}, {"color": GREEN, "value": orange}]


_REDUCE = {"calcs": ["lastNotNull"], "fields": "", "values": False}
_OPTIONS: dict[Kind, dict[str, Any]] = {
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {
        "reduceOptions": _REDUCE,
        "orientation": "auto",
        "colorMode": "value",
        "graphMode": "none",
        "justifyMode": "auto",
        "textMode": "auto",
        "wideLayout": True,
        "showPercentChange": False,
        "percentChangeColorMode": "standard",
    },
    "table": {"showHeader": True, "cellHeight": "sm", "frameIndex": 0},
    "bargauge": {
        "reduceOptions": _REDUCE,
        "orientation": "horizontal",
        "displayMode": "basic",
        "valueMode": "color",
        "namePlacement": "left",
        "showUnfilled": True,
        "sizing": "auto",
        "minVizWidth": 8,
        "minVizHeight": 16,
        "maxVizHeight": 300,
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False, "calcs": []},
    },
    "heatmap": {
        "calculate": False,
        "cellGap": 1,
        "color": {
            "mode": "scheme",
            "scheme": "Oranges",
            "fill": "dark-orange",
            "exponent": 0.5,
            "steps": 64,
            "reverse": False,
        },
        "exemplars": {"color": "rgba(255,0,255,0.7)"},
        "filterValues": {"le": 1e-9},
        "legend": {"show": True},
        "rowsFrame": {"layout": "auto"},
        "showValue": "never",
        "tooltip": {"mode": "single", "yHistogram": False},
        "yAxis": {"axisPlacement": "left", "unit": "s", "reverse": False},
    },
}
#: Labels as columns, all queries side by side.
_TABLE = [
    {"id": "merge", "options": {}},
    {"id": "organize", "options": {"excludeByName": {"Time": True}, "indexByName": {}, "renameByName": {}}},
]
