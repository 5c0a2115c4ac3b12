"""docs/annotations.md and the published schema say what is written."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from annotator import shapes
from annotator.documents import KEYS, MOST_BYTES, MOST_BYTES_OF_ALL
from tests.annotator.world import World, device_samples, held_by, job, node_described, profile
from tests.derived_events import finding

DOCS = Path(__file__).parents[2] / "docs"


def strict(part: Any) -> Any:
    """The same schema, with no field beside those that it names."""
    if isinstance(part, dict):
        made = {key: strict(value) for key, value in part.items()}
        return {**made, "additionalProperties": False} if "properties" in part else made
    return [strict(one) for one in part] if isinstance(part, list) else part


@pytest.mark.long
def test_the_published_schema_is_that_of_the_code() -> None:
    assert (DOCS / "schemas" / "annotations.v1.json").read_text(encoding="utf-8") == shapes.page(), "run `make docs`"
    jsonschema.Draft202012Validator.check_schema(shapes.schema())
    assert sorted(shapes.SHAPES) == sorted(KEYS)


@pytest.mark.long
def test_all_that_is_written_has_the_published_shape(world: World) -> None:
    """Every key occurs, and none has a field that the schema lacks."""
    world.node()
    world.owner("Job", "train")
    world.pod("train-0", owner=("Job", "train"))
    told = finding(cluster="default", devices=["GPU-node-1-3"], severity="critical")
    made = world.annotator("--propose-taints").list()
    made.hear(node_described(pods=held_by("node-1", "train-0")), device_samples(), job(pod="train-0"), profile(), told)
    made.turns()
    seen: set[str] = set()
    for kind, name, namespace in (("Node", "node-1", ""), ("Pod", "train-0", "ml"), ("Job", "train", "ml")):
        held = {f"paceline.dev/{key}": value for key, value in world.api.annotations(kind, name, namespace).items()}
        jsonschema.validate(held, strict(shapes.schema()), cls=jsonschema.Draft202012Validator)
        seen |= {key.removeprefix("paceline.dev/") for key in held}
    assert seen == {*KEYS}


def examples() -> dict[str, str]:
    """The annotations that the page shows: key -> JSON."""
    page = (DOCS / "annotations.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^paceline\.dev/([a-z-]+): '(.*)'$", page, re.M))


@pytest.mark.long
@pytest.mark.parametrize("key", KEYS)
def test_the_examples_of_the_page_have_the_published_shape(key: str) -> None:
    held = {f"paceline.dev/{key}": json.loads(examples()[key])}
    jsonschema.validate(held, strict(shapes.schema()), cls=jsonschema.Draft202012Validator)


def test_the_page_names_the_limits() -> None:
    page = (DOCS / "annotations.md").read_text(encoding="utf-8")
    assert f"{MOST_BYTES // 1024} KiB" in page
    assert f"{MOST_BYTES_OF_ALL // 1024} KiB" in page
