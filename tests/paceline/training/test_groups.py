"""Process groups: collectives are numbered the same on every member, also where PyTorch has no hook to tell of them."""

from types import SimpleNamespace
from typing import Any

import pytest

from paceline.training import marks
from paceline.training.hooks.groups import Group, Groups
from paceline.training.probe import Probe


def in_pytorch(test: Any) -> Any:
    """What a group tells passes through PyTorch, whose import alone takes seconds."""
    return pytest.mark.e2e(pytest.mark.usefixtures("torch")(test))


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


class Tensor:
    """As much of a tensor as is asked of one."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


class ProcessGroup:
    """A process group of a PyTorch without hooks."""

    group_name = "7"
    group_desc = "mine"

    def size(self) -> int:
        return 4

    def rank(self) -> int:
        return 1


class World(ProcessGroup):
    group_desc = "default_pg"


def old_torch(world: Any) -> Any:
    distributed = SimpleNamespace(ProcessGroup=ProcessGroup, group=SimpleNamespace(WORLD=world))
    engine = SimpleNamespace(queue_callback=lambda callback: None)
    variable = SimpleNamespace(_execution_engine=engine)
    return SimpleNamespace(distributed=distributed, autograd=SimpleNamespace(Variable=variable))


def test_collectives_count_for_the_group() -> None:
    """From 0, whatever the operation."""
    group = Group("default", 4, 1)
    assert [group.next(operation, -1) for operation in ("all_reduce", "barrier")] == [
        ("default", 4, 0),
        ("default", 4, 1),
    ]


def test_messages_count_for_their_pair() -> None:
    """Sender and receiver give a message the same name, and the group's own count goes on as if it were not there."""
    sender, receiver = Group("default", 4, 1), Group("default", 4, 3)
    assert sender.next("send", 3) == receiver.next("recv", 1) == ("default:1>3", 2, 0)
    assert sender.next("send", 3) == receiver.next("recv", 1) == ("default:1>3", 2, 1)
    assert receiver.next("send", 1) == ("default:3>1", 2, 0)
    assert sender.next("all_reduce", -1) == ("default", 4, 0)


@pytest.mark.xdist_group("pytorch")
@in_pytorch
@pytest.mark.parametrize(
    ("function", "arguments", "told"),
    [
        ("all_reduce", {"tensor": Tensor(64)}, ("all_reduce", 64)),
        ("all_gather_into_tensor", {"input": Tensor(8)}, ("all_gather", 8)),
        ("reduce_scatter_tensor", {"input": Tensor(32)}, ("reduce_scatter", 32)),
        ("all_to_all_single", {"input": Tensor(16)}, ("all_to_all", 16)),
        ("_all_gather_base", {"input": Tensor(16)}, ("all_gather", 16)),
        ("all_reduce_coalesced", {"input": [Tensor(4), Tensor(5)]}, ("all_reduce", 9)),
        ("barrier", {}, ("barrier", 0)),
        ("all_gather_object", {}, ("all_gather", 0)),
    ],
)
def test_functions_tell_where_groups_do_not(function: str, arguments: dict[str, Any], told: tuple[str, int]) -> None:
    """On a PyTorch without hooks, the functions' arguments say what was issued, by position or by name."""
    probe, world = Probe(), World()
    groups = Groups(probe, old_torch(world))
    groups.join(world)
    tensors = next(iter(arguments), "")
    groups.tell(function, {tensors: 0, "group": 1}, tensors, (), arguments)
    groups.tell(function, {tensors: 0, "group": 1}, tensors, tuple(arguments.values()), {})
    payloads = [payload for _, kind, payload in probe.ring if kind == marks.ISSUED]
    assert payloads == [("default", 4, seq, *told, marks.PYTHON) for seq in (0, 1)]


@pytest.mark.xdist_group("pytorch")
@in_pytorch
def test_other_groups_go_by_their_own_name() -> None:
    """The world is ``default``; a group that was never joined is not counted."""
    probe, world, mine = Probe(), World(), ProcessGroup()
    groups = Groups(probe, old_torch(world))
    groups.join(world)
    groups.tell("all_reduce", {}, "tensor", (), {"tensor": Tensor(1), "group": mine})
    groups.join(mine)
    groups.tell("all_reduce", {}, "tensor", (), {"tensor": Tensor(1), "group": mine})
    assert [payload[:3] for _, _, payload in probe.ring] == [("7", 4, 0)]


@pytest.mark.xdist_group("pytorch")
@in_pytorch
def test_arguments_that_nobody_expects_end_the_timing_only(capsys: pytest.CaptureFixture[str]) -> None:
    """A tensor that tells no size is our problem, not the script's."""
    probe, world = Probe(), World()
    groups = Groups(probe, old_torch(world))
    groups.join(world)
    groups.tell("all_reduce", {}, "tensor", (), {"tensor": object()})
    assert probe.off
    assert "training goes on" in capsys.readouterr().err


class HookedGroup(World):
    """A process group of a PyTorch whose groups tell what they issue."""

    def register_pre_hook(self, number: int, hook: Any) -> None:
        self.issue = lambda name, root=-1: hook(SimpleNamespace(name=name, root=root, input_tensors=[Tensor(64)]))


@pytest.mark.xdist_group("pytorch")
@in_pytorch
def test_collectives_of_a_step_that_is_left_out_are_counted() -> None:
    """Those that are told after it have the numbers that they have on ranks that told it, messages of a pair too."""
    names = {"ALLREDUCE": 0, "SEND": 1, "RECV": 2}
    torch = old_torch(None)
    torch.distributed.ProcessGroup = HookedGroup
    torch._C = SimpleNamespace(_distributed_c10d=SimpleNamespace(HookOpName=SimpleNamespace(__members__=names)))
    told = []
    for off in (False, True):
        probe, world = Probe(), HookedGroup()
        Groups(probe, torch).join(world)
        probe.off = off
        for name, root in ((0, -1), (1, 2), (0, -1), (2, 3), (1, 2)):
            world.issue(name, root)
        assert len(probe.ring) == 5 * (not off)
        probe.off = False
        for name, root in ((0, -1), (1, 2), (2, 3)):
            world.issue(name, root)
        told.append([payload for _, _, payload in probe.ring][-3:])
    assert told[1] == told[0]
    assert [payload[2] for payload in told[1]] == [2, 2, 1]
