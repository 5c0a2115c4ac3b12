"""The condition ``PacelineHealthy``: what it says of a node, and when it is tried again."""

from typing import Any

from tests.annotator.world import World, device_samples, node_described
from tests.derived_events import finding


def condition(world: World) -> dict[str, Any] | None:
    held = world.api.get("Node", "node-1")["status"]["conditions"]
    return next((one for one in held if one["type"] == "PacelineHealthy"), None)


def test_a_node_of_which_nothing_is_heard_is_unknown(world: World) -> None:
    """That nobody complains of it says nothing then; its ten-minute description alone is no sample."""
    world.node()
    made = world.annotator("--node-condition").list().hear(node_described(), device_samples()).turns()
    assert condition(world)["status"] == "True"  # type: ignore[index]
    world.now_s += 310
    made.hear(node_described(sequence=1)).turns()
    assert condition(world)["status"] == "Unknown"  # type: ignore[index]
    made.hear(device_samples(at_s=world.now_s)).turns()
    assert condition(world)["status"] == "True"  # type: ignore[index]


def test_a_finding_that_stands_counts_in_silence_too(world: World) -> None:
    world.node()
    made = world.annotator("--node-condition").list().hear(node_described(), device_samples()).turns()
    world.now_s += 310
    made.hear(finding(cluster="default", devices=["GPU-node-1-3"])).turns()
    assert condition(world)["status"] == "False"  # type: ignore[index]


def test_a_condition_that_was_refused_is_tried_again(world: World) -> None:
    world.node()
    world.api.fail(lambda asked: asked.path.endswith("/status"), 403, times=1)
    made = world.annotator("--node-condition").list().hear(node_described(gpus=0)).turns(20)
    assert (condition(world), world.api.count("PATCH", "/status")) == (None, 1)
    world.now_s += 600
    made.turns(2)
    assert condition(world)["status"] == "True"  # type: ignore[index]
