"""Grafana's files: written by their source, whole, and useful on a dcgm-exporter that knows nothing of us."""

import json
import re
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import which
from typing import Any

import pytest
import yaml

from deploy.grafana.boards import BOARDS, FOLDER, text
from experiments.panels import asked
from paceline.gpu.dcgm import FIELDS
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
PROVISIONING = ROOT / "deploy" / "grafana" / "provisioning"
NAMES = ("cluster", "training", "job", "pipeline")
#: What a stock exporter tells of two GPUs; the second one does not measure its temperature.
BLANK = 9223372036854775794
STOCK = {field.name: 40.0 for field in FIELDS if field.listed == "by default"} | {
    "DCGM_FI_DEV_XID_ERRORS": 0.0,
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.4,
    "DCGM_FI_PROF_DRAM_ACTIVE": 0.4,
}


def boards() -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.json")}


def test_dashboards_are_those_of_their_source() -> None:
    """`make dashboards` has been run: nobody edits JSON."""
    assert sorted(boards()) == sorted(NAMES) == sorted(BOARDS)
    for name, board in BOARDS.items():
        assert (FOLDER / f"{name}.json").read_text(encoding="utf-8") == text(board), name


@pytest.mark.parametrize("name", NAMES)
def test_a_dashboard_is_whole(name: str) -> None:
    """Panels have a number of their own, a question and a place; they neither overlap nor leave the grid."""
    board = boards()[name]
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        assert panel["type"] == "row" or all(target["expr"] for target in panel["targets"])
        assert panel["type"] == "row" or panel["targets"], panel["title"]
    assert name == "pipeline" or board["annotations"]["list"]


def test_dashboards_have_the_variables_that_they_use() -> None:
    for name, board in boards().items():
        has = {variable["name"] for variable in board["templating"]["list"]}
        uses = set(re.findall(r"\$\{?(\w+)", json.dumps(board["panels"]))) | {"datasource"}
        assert uses == has, name


def test_grafana_is_given_the_data_source_and_the_dashboards() -> None:
    (sources,) = (yaml.safe_load(path.read_text()) for path in (PROVISIONING / "datasources").glob("*.yaml"))
    assert [source["type"] for source in sources["datasources"]] == ["prometheus", "alertmanager"]
    (provider,) = yaml.safe_load((PROVISIONING / "dashboards" / "paceline.yaml").read_text())["providers"]
    assert provider["options"]["path"] == "/var/lib/grafana/dashboards"
    assert len({board["uid"] for board in boards().values()}) == len(NAMES)


@pytest.mark.slow
def test_every_expression_is_one_of_promql(tmp_path: Path) -> None:
    """promtool reads panels, annotations and variables, with a job chosen."""
    if which("promtool") is None:
        pytest.skip("no promtool here; fix: sudo apt-get install prometheus")
    wanted = list(asked.of_dashboards("job"))
    assert len(wanted) > 80
    made = [{"record": f"asked_{number}", "expr": one.expression} for number, one in enumerate(wanted)]
    file = tmp_path / "asked.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "asked", "rules": made}]}))
    done = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def stock_text(now_s: int) -> Iterator[str]:
    """Twenty minutes of a stock exporter, as OpenMetrics."""
    for name, value in STOCK.items():
        yield f"# TYPE {name} gauge"
        for gpu in (0, 1):
            blank = gpu == 1 and name == "DCGM_FI_DEV_GPU_TEMP"
            labels = f'gpu="{gpu}",UUID="GPU-{gpu}",device="nvidia{gpu}",modelName="NVIDIA H100",hostname="node-1"'
            for at in range(now_s - 1200, now_s, 15):
                yield f"{name}{{{labels}}} {BLANK if blank else value} {at}"
    yield "# EOF\n"


@pytest.fixture(scope="module")
def stock(new_prometheus: Callable[[str], str]) -> tuple[str, int]:
    """A Prometheus that holds a stock exporter's series, and until when."""
    now_s = int(time.time())
    return new_prometheus("\n".join(stock_text(now_s))), now_s - 15


def answered(stock: tuple[str, int], expression: str) -> list[float]:
    url, now_s = stock
    body = urllib.parse.urlencode({"query": expression, "time": now_s}).encode()
    with urllib.request.urlopen(f"{url}/api/v1/query", body, timeout=PATIENCE_S) as answer:
        return [float(one["value"][1]) for one in json.load(answer)["data"]["result"]]


@pytest.mark.e2e
def test_the_cluster_dashboard_lives_on_a_stock_exporter(stock: tuple[str, int]) -> None:
    """Its first row asks for nothing else: every panel there answers, and no blank is drawn."""
    row = [panel for panel in boards()["cluster"]["panels"] if panel["gridPos"]["y"] > 0]
    first = next(panel["gridPos"]["y"] for panel in row if panel["type"] == "row")
    panels = [panel for panel in row if panel["gridPos"]["y"] < first]
    assert len(panels) > 12
    for panel in panels:
        for target in panel["targets"]:
            values = answered(stock, asked.chosen(target["expr"], "job"))
            assert values, panel["title"]
            assert max(values) < 1e12, panel["title"]
    assert answered(stock, asked.chosen(_expression(panels, "Memory used"), "job")) == [0.5]
    assert answered(stock, asked.chosen(_expression(panels, "Hottest"), "job")) == [40.0]


def _expression(panels: list[dict[str, Any]], title: str) -> str:
    return str(next(panel["targets"][0]["expr"] for panel in panels if panel["title"] == title))
