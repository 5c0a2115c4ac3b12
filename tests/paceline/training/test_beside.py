"""Other collectives beside DDP's own in backward, and a second training in a process that has let its first go."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paceline.training.probe import Probe
from paceline.training.session import Session

STEPS = 4


@pytest.mark.xdist_group("pytorch")
@pytest.mark.e2e
def test_collectives_beside_the_reducers_are_no_buckets(
    new_listener: Callable[[], Any], scripts: Path, tmp_path: Path
) -> None:
    """Each has its own group and number; another thread's is not told. Workers forked later live."""
    listener = new_listener()
    done = listener.run(str(scripts / "beside.py"), str(tmp_path / "store"))
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{STEPS}\n", "")
    assert len(listener.heard) == 2
    for heard in listener.heard:
        assert len(heard.steps()) == STEPS
        assert heard.bye is not None
        reduced = [row.group for row in heard.collectives if row.operation == "all_reduce"]
        assert len(set(reduced)) == 2
        others = [group for group in reduced if group != "default"]
        assert len(others) == STEPS
        assert len(reduced) - len(others) > STEPS  # buckets, of which DDP makes two once it knows their order


class _Model:
    """Stands for one whose process group would be destroyed with it."""

    freed = 0

    def __del__(self) -> None:
        _Model.freed += 1


def test_a_forked_child_frees_no_model_of_its_parent() -> None:
    """A fork between forward and backward: the threads that a process group would wait for are not in the child."""
    session = Session(Probe())
    session.probe.reducer = _Model()
    session.probe.in_forward = _Model()
    session._forked()
    assert session.probe.reducer is None
    assert _Model.freed == 0


def test_who_trains_anew_is_not_told_as_before() -> None:
    """Device, mesh and batch size of a training whose group has been destroyed are not those of the next."""
    session = Session(Probe())
    session.mesh, session.probe.wrapper, session.probe.batch_size = object(), "ddp", 8
    session.leave()
    said = session._hello()
    assert (said.batch_size, said.framework, said.device, said.dp) == (None, "python", "cpu", None)
