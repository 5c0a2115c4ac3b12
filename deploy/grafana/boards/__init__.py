"""The dashboards that Grafana is provisioned with, and their JSON; ``python -m deploy.grafana.boards`` writes it.

A new panel goes into the file of its dashboard here; the JSON is never edited by hand.
"""

import json
from pathlib import Path

from . import cluster, job, pipeline, training
from .panels import Dashboard, written

FOLDER = Path(__file__).parents[1] / "dashboards"
BOARDS = {"cluster": cluster.BOARD, "training": training.BOARD, "job": job.BOARD, "pipeline": pipeline.BOARD}


def text(board: Dashboard) -> str:
    """What stands in its file."""
    return json.dumps(written(board), indent=2, ensure_ascii=False) + "\n"
