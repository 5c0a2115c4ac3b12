"""`paceline run` says where a page shows it: that of the same broker, and the job by the name it will have."""

import pytest

from paceline.commands.page_link import page_link
from paceline.commands.stack_state import Process, Stack

RUN = ["torchrun", "--standalone", "train.py"]
SEEN = {"PACELINE_JOB_FALLBACK": "train-80000-9f3c"}


def stack(broker: str = "127.0.0.1:9092", page: str | None = "http://127.0.0.1:8501") -> Stack:
    addresses = {"broker": broker} if page is None else {"broker": broker, "page": page}
    process = Process(pid=70, ticks=1, boot="b", namespace="n")
    return Stack(process=process, started_s=1.0, detached=True, logs="", addresses=addresses)


@pytest.mark.parametrize(
    ("brokers", "command", "seen", "expected"),
    [
        ("127.0.0.1:9092", RUN, SEEN, "http://127.0.0.1:8501/job?job=train-80000-9f3c"),
        ("localhost:9092", RUN, SEEN, "http://127.0.0.1:8501/job?job=train-80000-9f3c"),
        ("kafka-1:9092", RUN, SEEN, None),
        ("127.0.0.1:29092", RUN, SEEN, None),
        (None, RUN, SEEN, None),
        ("127.0.0.1:9092", RUN, SEEN | {"PACELINE_JOB": "a b&x=\n"}, "http://127.0.0.1:8501/job?job=a+b%26x%3D"),
        ("127.0.0.1:9092", RUN, SEEN | {"SLURM_JOB_ID": "71"}, "http://127.0.0.1:8501/job?job=71"),
        ("127.0.0.1:9092", ["torchrun", "--rdzv-id=r1", "x.py"], SEEN, "http://127.0.0.1:8501"),
        ("127.0.0.1:9092", ["torchrun", "--rdzv_id", "r1", "x.py"], SEEN, "http://127.0.0.1:8501"),
        ("127.0.0.1:9092", RUN, {}, "http://127.0.0.1:8501"),
    ],
)
def test_a_run_is_shown_by_the_page_of_its_broker(
    brokers: str | None, command: list[str], seen: dict[str, str], expected: str | None
) -> None:
    """Where the launcher will name the job, the page without it; where there is no such page, nothing."""
    assert page_link([stack()], brokers, command, seen) == expected


def test_the_newest_page_of_the_broker_is_named() -> None:
    """Stacks come newest first; one without a page, or of another broker, is none."""
    stacks = [stack(page=None), stack("127.0.0.1:1", "http://127.0.0.1:1"), stack(page="http://127.0.0.1:2"), stack()]
    assert page_link(stacks, "127.0.0.1:9092", RUN, {"PACELINE_JOB": "j"}) == "http://127.0.0.1:2/job?job=j"
