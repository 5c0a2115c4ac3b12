"""What is true of a simulated job: the answer sheet beside its recording.

Rule of this file: data only.
"""

import msgspec


class FaultTruth(msgspec.Struct, frozen=True, kw_only=True):
    """One injected fault: where, in which steps and when, as what it should be found, and what it cost.

    ``lost_s``: how much longer the steps from the first to the last one took than without any fault, same noise.
    """

    fault: str
    size: float
    every: int
    ranks: list[int]
    nodes: list[str]
    first_step: int
    last_step: int
    began_s: float
    ended_s: float
    lost_s: float
    kind: str
    cause: str


class Truth(msgspec.Struct, frozen=True, kw_only=True):
    """One job. ``also``: kinds of finding that are right beside the faults' own, as the job is cut or fed unevenly."""

    job: str
    attempt: int
    ranks: int
    dp: int
    tp: int
    pp: int
    fsdp: bool
    steps: int
    step_s: float
    seed: int
    uneven: float
    stage_skew: dict[int, float]
    elapsed_s: float
    elapsed_without_faults_s: float
    faults: list[FaultTruth]
    also: list[str]


class DeviceTruth(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with one GPU, as its own samples show it, and as what it should be found."""

    node: str
    device: str
    job: str
    began_s: float
    ended_s: float
    kind: str


class SilenceTruth(msgspec.Struct, frozen=True, kw_only=True):
    """A node from which nothing arrived for a while; ``messages_lost``: what it had to say, by topic."""

    node: str
    began_s: float
    ended_s: float
    messages_lost: dict[str, int]


class FleetTruth(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet: of each job that told its steps what is true of it, and what is wrong with nodes.

    ``clocks_ahead_s``: by how much each node's clock is wrong. A job that had not ended with the fleet is told as far
    as it came.
    """

    cluster: str
    seed: int
    began_s: float
    ended_s: float
    nodes: int
    gpus: int
    jobs: list[Truth]
    devices: list[DeviceTruth]
    silences: list[SilenceTruth]
    clocks_ahead_s: dict[str, float]


def as_json(truth: Truth | FleetTruth) -> bytes:
    """The file that holds it."""
    return msgspec.json.format(msgspec.json.encode(truth), indent=2) + b"\n"
