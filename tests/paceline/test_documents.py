"""The generated pages of docs/: what is checked in is what the contract says today."""

import json
from pathlib import Path

import jsonschema
import pytest

from paceline import schema
from paceline.topics import TOPICS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(("name", "text"), schema.documents().items(), ids=schema.documents().keys())
def test_it_is_up_to_date(name: str, text: str) -> None:
    """A changed event or topic changes its pages in the same commit: run `make docs`."""
    assert (DOCS / name).read_text(encoding="utf-8") == text, "run `make docs`"


def test_no_schema_is_left_of_a_topic_that_is_gone() -> None:
    """docs/schemas holds the topics there are, and no others; and what is written to Kubernetes."""
    held = {path.stem for path in (DOCS / "schemas").iterdir()}
    assert held == {*(topic.name for topic in TOPICS), "annotations.v1"}


@pytest.mark.long
@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.short)
def test_a_schema_is_a_schema(topic: object) -> None:
    """Every published schema is valid JSON Schema 2020-12."""
    jsonschema.Draft202012Validator.check_schema(schema.topic_schema(topic))  # type: ignore[arg-type]


def test_references_of_the_asyncapi_document_resolve() -> None:
    """Every reference leads to a part of the document."""
    document = schema.asyncapi()
    references = [part.split('"')[0] for part in json.dumps(document).split('"$ref": "')[1:]]
    assert references
    for reference in references:
        place = document
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]


def test_a_unit_is_the_end_of_a_name() -> None:
    """The longest ending wins; a count has none."""
    assert schema.unit_of("step_median_s") == "s"
    assert schema.unit_of("pcie_rx_bytes_per_s") == "bytes/s"
    assert schema.unit_of("cpu_ratio_per_core") == "ratio, 0 to 1"
    assert schema.unit_of("steps") == ""
