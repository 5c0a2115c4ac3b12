"""What a rank does, from two looks at it."""

import pytest

from paceline.sidecar.look_verdict import READ_BYTES, UNSEEN, WRITTEN_BYTES, ProcessLook, Seen, judge

IDLE = ProcessLook("S", cpu_s=1.0, children_cpu_s=1.0)
WAITS = Seen(0.0, IDLE, answered=True, frames=("train.py:7 main",), line="train.py:7 main")
LOADER = ("/x/torch/utils/data/dataloader.py:1 _next_data",)
MODEL = ("train.py:3 forward", "/x/torch/nn/modules/module.py:1 _call_impl")


def later(process=IDLE, **changed):
    """The same rank five seconds later."""
    return WAITS._replace(at_s=5.0, process=process, **changed)


@pytest.mark.parametrize(
    ("now", "verdict"),
    [
        (later(), ("waiting", False)),
        (later(IDLE._replace(cpu_s=6.0)), ("computing", False)),
        (later(IDLE._replace(cpu_s=1.2)), ("computing", False)),
        (later(IDLE._replace(cpu_s=1.1)), ("waiting", False)),
        (later(IDLE._replace(cpu_s=6.0), timed=False), ("computing", None)),
        (later(IDLE._replace(cpu_s=6.0), frames=MODEL), ("evaluating", True)),
        (later(IDLE._replace(cpu_s=1.2), others=MODEL), ("evaluating", True)),
        (later(others=MODEL), ("evaluating", True)),
        (later(frames=LOADER, others=MODEL), ("evaluating", True)),
        (later(others=("threading.py:3 is_set",)), ("waiting", False)),
        (later(frames=MODEL), ("moving", True)),
        (later(IDLE._replace(cpu_s=6.0), frames=("/x/torch/_dynamo/a.py:1 f",)), ("compiling", True)),
        (later(marked=True), ("moving", True)),
        (later(frames=("train.py:9 main",)), ("moving", True)),
        (later(IDLE._replace(written_bytes=WRITTEN_BYTES)), ("moving", True)),
        (later(IDLE._replace(written_bytes=WRITTEN_BYTES - 1)), ("waiting", False)),
        (later(IDLE._replace(read_bytes=READ_BYTES)), ("moving", True)),
        (later(IDLE._replace(read_bytes=READ_BYTES - 1)), ("waiting", False)),
        (later(frames=LOADER), ("waiting_for_loader", False)),
        (later(IDLE._replace(children_cpu_s=6.0), frames=LOADER), ("loading", True)),
        (later(IDLE._replace(state="D")), ("in_kernel", False)),
        (later(IDLE._replace(state="T")), ("stopped", False)),
        (later(IDLE._replace(state="T"), marked=True), ("stopped", False)),
        (later(IDLE._replace(state="Z")), ("gone", False)),
        (later(None), ("gone", False)),
        (later(answered=False, frames=()), ("not_answering", False)),
        (later(IDLE._replace(cpu_s=6.0), answered=False, frames=()), ("computing", False)),
        (later(IDLE._replace(cpu_s=0.0, written_bytes=0)), ("waiting", False)),
    ],
)
def test_two_looks_say_what_a_rank_does(now, verdict):
    """By its process, its stack and its probe; what moves is no hang."""
    assert judge(WAITS, now) == verdict


def test_an_evaluation_seen_once_is_one_at_the_next_look():
    """Of two looks at one that sleeps between its batches, either may have come in a long sleep."""
    assert judge(WAITS._replace(others=MODEL), later()) == ("evaluating", True)


def test_one_look_says_nothing_of_movement():
    """A rank is not accused by a single look, unless it is stopped or gone."""
    assert judge(None, WAITS) == ("unknown", None)
    assert judge(None, WAITS._replace(answered=False)) == ("not_answering", None)
    assert judge(None, later(None)) == ("gone", False)
    assert judge(None, later(IDLE._replace(state="T"))) == ("stopped", False)


def test_a_process_that_this_node_does_not_show_is_not_judged():
    """Another container's: its stack alone may say that it moves, and nothing says that it does not."""
    unseen = WAITS._replace(process=ProcessLook(UNSEEN))
    assert judge(unseen, unseen._replace(at_s=5.0)) == ("unknown", None)
    assert judge(unseen, unseen._replace(at_s=5.0, frames=("train.py:9 main",))) == ("moving", True)


def test_two_looks_at_one_time_divide_by_nothing():
    """A clock that stands still."""
    assert judge(WAITS, WAITS) == ("waiting", False)
