"""Findings and steps as a receiver of OpenTelemetry's protocol decodes them; a receiver that is away costs a bound."""

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import msgspec
import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from paceline import columns
from paceline.commands.otlp import main
from paceline.otlp import step_choice
from paceline.otlp.answers import LATER, OF_ALL, Answer, Answers
from paceline.otlp.records import log_event, spans
from paceline.otlp.sender import Sender
from paceline.otlp.step_choice import Step, StepChoice
from paceline.phases import PHASES
from tests.derived_events import HOSTILE, finding
from tests.http_receiver import Answer as Answered
from tests.http_receiver import Received, Receiver
from tests.paceline.tracking.steps import message
from tests.patience import PATIENCE_S

STEP = Step(("c", "train", 0), "n1", 1, 7, 1000.0, 0.5, {"forward": 0.25, "communication": 0.125}, True)


@pytest.fixture(autouse=True)
def _quiet() -> None:
    """As the command has it."""
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)


def attributes(held: Any) -> dict[str, str]:
    return {one.key: str(one.value) for one in held}


def test_a_finding_arrives_as_a_log_event() -> None:
    with Receiver() as server:
        sender = Sender("findings", OTLPLogExporter(endpoint=f"http://{server.at}/v1/logs", timeout=PATIENCE_S), print)
        sender.add([log_event(finding(summary=HOSTILE), 1234.5)])
        assert sender.close(PATIENCE_S) == "1 findings sent"
        (told,) = server.received
    assert told.path == "/v1/logs"
    (resource,) = ExportLogsServiceRequest.FromString(told.body).resource_logs
    (record,) = resource.scope_logs[0].log_records
    assert record.time_unix_nano == 1_234_500_000_000
    assert record.event_name == "paceline.finding"
    assert record.severity_text == "warning"
    assert record.body.string_value == HOSTILE
    assert "train" in attributes(resource.resource.attributes)["paceline.job"]
    assert "f1" in attributes(record.attributes)["paceline.finding.id"]


def test_a_step_arrives_as_a_span_with_its_phases_below() -> None:
    with Receiver() as server:
        sender = Sender("spans", OTLPSpanExporter(endpoint=f"http://{server.at}/v1/traces", timeout=PATIENCE_S), print)
        sender.add(spans(STEP))
        assert sender.close(PATIENCE_S) == "3 spans sent"
        (told,) = server.received
    (resource,) = ExportTraceServiceRequest.FromString(told.body).resource_spans
    step, forward, waiting = resource.scope_spans[0].spans
    assert (step.name, step.end_time_unix_nano - step.start_time_unix_nano) == ("step 7", 500_000_000)
    assert (forward.name, waiting.name) == ("forward", "communication")
    assert forward.parent_span_id == waiting.parent_span_id == step.span_id
    assert waiting.start_time_unix_nano == forward.end_time_unix_nano
    assert len({step.span_id, forward.span_id, waiting.span_id}) == 3


def test_ranks_of_a_step_share_a_trace_and_the_same_again_has_the_same_ids() -> None:
    ours, again, other = (spans(step)[0].context for step in (STEP, STEP, STEP._replace(rank=2)))
    assert ours is not None
    assert again is not None
    assert other is not None
    assert (ours.trace_id, ours.span_id) == (again.trace_id, again.span_id)
    assert ours.trace_id == other.trace_id
    assert ours.span_id != other.span_id


@pytest.mark.slow
def test_a_receiver_that_is_away_is_told_once_and_what_is_lost_is_counted(free_port: Callable[[], int]) -> None:
    said: list[str] = []
    exporter = OTLPLogExporter(endpoint=f"http://127.0.0.1:{free_port()}/v1/logs", timeout=0.2)  # it is to run out
    sender = Sender("findings", exporter, said.append)
    sender.add([log_event(finding(), 1.0)])
    assert sender.close(2.0) == "0 findings sent, 1 lost"  # it is to run out
    sender._thread.join()
    assert len(said) == 1


class Told(list[str]):
    """What a sender says, and what arrived of what it sent."""

    def __init__(self, server: Receiver) -> None:
        self.server = server
        answers = Answers()
        exporter = OTLPLogExporter(endpoint=f"http://{server.at}/v1/logs", timeout=PATIENCE_S, session=answers)
        self.sender = Sender("findings", exporter, self.append, answers)

    def arrived(self) -> set[str]:
        """The ids of the findings that the receiver took."""
        taken = [one for one in list(self.server.received) if self.server.judge(one) is None]
        return {key for one in taken for key in ids(one)}


@contextmanager
def sending(judge: Callable[[Received], Answered | None] = lambda received: None) -> Iterator[Told]:
    with Receiver() as server:
        server.judge = judge
        told = Told(server)
        try:
            yield told
        finally:
            told.sender.close(PATIENCE_S)


def ids(received: Received) -> list[str]:
    return [
        next(one.value.string_value for one in record.attributes if one.key == "paceline.finding.id")
        for resource in ExportLogsServiceRequest.FromString(received.body).resource_logs
        for record in resource.scope_logs[0].log_records
    ]


def refusing(status: int, name: str = "bad") -> Callable[[Received], Answered | None]:
    """Answers ``status`` to whatever holds the finding ``name``."""
    return lambda received: (status, {}, b"no") if name in ids(received) else None


@pytest.mark.long
@pytest.mark.parametrize("status", [400, 413, 422, 500])
def test_one_that_is_refused_for_good_is_dropped_and_told_and_all_others_arrive(status: int) -> None:
    with sending(refusing(status)) as told:
        names = [f"good-{number}" for number in range(150)]
        told.sender.add([log_event(finding(id=name), 1.0) for name in [*names[:70], "bad", *names[70:]]])
        assert told.sender.close(PATIENCE_S) == "150 findings sent, 1 refused"
        assert told.arrived() == set(names)
    assert told == [
        f"findings: one is refused for good and dropped (answered {status} ({HTTPStatus(status).phrase}));"
        " the end tells how many were"
    ]


@pytest.mark.long
@pytest.mark.parametrize("status", [403, 503])
def test_one_that_may_be_taken_later_waits_alone_and_is_not_lost(status: int, until: Callable[..., Any]) -> None:
    with sending(refusing(status)) as told:
        told.sender.add([log_event(finding(id=name), 1.0) for name in ("bad", "good")])
        told.sender._until_s = float("inf")  # As at the end: no wait between two attempts but a moment.
        until(lambda: "good" in told.arrived())
        assert (told.sender.backlog.waiting, told.sender.backlog.refused) == (1, 0)
        told.server.judge = lambda received: None
        assert told.sender.close(PATIENCE_S) == "2 findings sent"
    assert [line.split(" (")[0] for line in told] == [f"findings: answered {status}", "findings: taken again"]


@pytest.mark.parametrize(("status", "fix"), [(401, "OTEL_EXPORTER_OTLP_HEADERS"), (404, "--endpoint"), (307, "name")])
def test_a_login_or_an_address_that_is_wrong_is_told_with_its_fix_and_waited_for(
    status: int, fix: str, until: Callable[..., Any]
) -> None:
    with sending() as told:
        told.server.answers = [(status, {"Location": "/elsewhere"}, b"secret"), (200, {}, b"")]
        told.sender.add([log_event(finding(), 1.0), log_event(finding(id="f2"), 1.0)])
        until(lambda: bool(told))
        assert told.sender.close(PATIENCE_S) == "2 findings sent"
    assert f"answered {status}" in told[0]
    assert fix in told[0]
    assert told[1:] == ["findings: taken again"]
    assert [len(ids(one)) for one in told.server.received] == [2, 2]


def test_a_receiver_may_ask_to_be_let_alone() -> None:
    """And is not asked again by the exporter itself, which knows nothing of ours."""
    with sending() as told:
        told.server.answers = [(429, {"Retry-After": "7"}, b""), (200, {}, b"")]
        exporter, answers = told.sender._exporter, told.sender._answers
        assert answers is not None
        assert exporter.export([log_event(finding(), 1.0)]).name == "FAILURE"
        assert answers.take() == Answer(429, 7.0)
        assert len(told.server.received) == 1


@pytest.mark.parametrize("asked", ["Wed, 21 Oct 2026 07:28:00 GMT", "-5", "soon", "1e9"])
def test_a_wait_in_other_words_is_ours_to_choose(asked: str) -> None:
    with sending() as told:
        told.server.answers = [(503, {"Retry-After": asked}, b""), (200, {}, b"")]
        answers = told.sender._answers
        assert answers is not None
        told.sender._exporter.export([log_event(finding(), 1.0)])
        assert answers.take() == Answer(503)


def test_what_is_left_out_of_a_message_that_was_taken_is_counted() -> None:
    with sending() as told:
        answer = ExportLogsServiceResponse()
        answer.partial_success.rejected_log_records = 1
        told.server.answers = [(200, {}, answer.SerializeToString()), (200, {}, b"\xff no message")]
        told.sender.add([log_event(finding(id=name), 1.0) for name in ("a", "b")])
        assert told.sender.close(PATIENCE_S) == "1 findings sent, 1 refused"
        assert len(told.server.received) == 1
    (line,) = told
    assert "left out" in line


def test_what_cannot_be_encoded_holds_up_no_other() -> None:
    with sending() as told:
        torn = log_event(finding(summary="\ud800"), 1.0)
        told.sender.add([log_event(finding(id="a"), 1.0), torn, log_event(finding(id="b"), 1.0)])
        assert told.sender.close(PATIENCE_S) == "2 findings sent, 1 refused"
        assert told.arrived() == {"a", "b"}


def test_only_what_may_be_mended_is_tried_again() -> None:
    for status in range(200, 600):
        verdict = Answer(status).verdict
        assert (verdict == "taken") == (status < 300)
        assert (verdict == "refused") == (status >= 400 and status not in (*LATER, *OF_ALL))


def choice(accused: list[int]) -> StepChoice:
    made = StepChoice()
    if accused:
        made.hear(finding(cluster="c", job="train", ranks=accused))
    return made


@pytest.mark.parametrize(("accused", "told"), [([], [0]), ([1], [0, 1]), ([5], [0])])
def test_the_lowest_rank_and_those_accused_tell_a_step(accused: list[int], told: list[int]) -> None:
    steps = choice(accused).update(message(1, [3], t0_s=1000.0))
    assert [step.rank for step in steps] == told
    assert [step.accused for step in steps] == [rank in accused for rank in told]


def test_of_a_job_it_is_one_step_a_second() -> None:
    made = choice([])
    told = [made.update(message(tick, [tick], t0_s=1000.0 + tick / 10)) for tick in range(40)]
    assert [steps[0].step for steps in told if steps] == [0, 10, 20, 30]


@pytest.mark.parametrize("start_s", [math.inf, -math.inf, math.nan, 1e11, 1e300, -1e300])
def test_a_step_whose_start_is_no_time_is_passed_over_and_the_next_is_told(start_s: float) -> None:
    made = choice([])
    wild = message(2, [2], t0_s=1001.0, start_s=columns.encoded("f8", [start_s] * 2))
    told = [made.update(one) for one in (message(1, [1], t0_s=1000.0), wild, message(3, [3], t0_s=1002.0))]
    assert [[step.step for step in steps] for steps in told] == [[1], [], [3]]


@pytest.mark.parametrize("seconds", [math.inf, math.nan, 1e300, -1.0])
def test_a_length_or_phase_that_is_none_is_left_out(seconds: float) -> None:
    wild = columns.encoded("f8", [seconds] * 2)
    assert choice([]).update(msgspec.structs.replace(message(1, [1]), step_s=wild)) == []
    (step,) = choice([]).update(message(1, [1], phases={"forward": wild, "backward": columns.durations([0.25] * 2)}))
    assert step.phases == {"backward": 0.25}


def test_every_step_that_is_told_becomes_spans_that_can_be_sent() -> None:
    """Times of 63 bits in nanoseconds, whatever a message holds."""
    longest = columns.encoded("f8", [step_choice.LONGEST_S] * 2)
    held = message(1, [1], t0_s=step_choice.LATEST_START_S, phases=dict.fromkeys(PHASES, longest))
    (step,) = choice([]).update(msgspec.structs.replace(held, step_s=longest))
    assert max(span.end_time or 0 for span in spans(step)) < 2**63
    encode_spans(spans(step))


def test_a_clock_that_is_set_back_or_was_ahead_for_a_step_silences_nothing() -> None:
    made = choice([])
    starts_s = [1000.0, 4600.0, 1002.0, 500.0, 501.0]
    told = [made.update(message(number, [number], t0_s=start_s)) for number, start_s in enumerate(starts_s)]
    assert [[step.step for step in steps] for steps in told] == [[0], [1], [2], [3], [4]]


def test_what_comes_late_of_the_same_second_changes_no_choice() -> None:
    """An accused rank tells the chosen step after the lowest has told others."""
    made = choice([1])
    assert made.update(message(1, [5], t0_s=1000.0))
    assert made.update(message(2, [4], t0_s=999.5)) == []
    assert [step.rank for step in made.update(message(3, [5], t0_s=1000.0))] == [0, 1]


def test_who_has_recovered_is_told_no_more() -> None:
    made = choice([1])
    made.hear(finding(cluster="c", job="train", ranks=[1], revision=2, state="recovered"))
    assert [step.rank for step in made.update(message(1, [3], t0_s=1000.0))] == [0]


@pytest.mark.parametrize("url", ["ftp://host", "http://ada:secret@host", "host:4318", "http://"])
def test_no_address_is_refused_and_no_login_is_shown(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--endpoint", url])
    assert "secret" not in capsys.readouterr().err
