"""Findings and steps as a receiver of OpenTelemetry's protocol decodes them; a receiver that is away costs a bound."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from paceline.commands.otlp import main
from paceline.otlp.records import log_event, spans
from paceline.otlp.sender import Sender
from paceline.otlp.step_choice import Step, StepChoice
from tests.derived_events import HOSTILE, finding
from tests.http_receiver import Receiver
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


def test_who_has_recovered_is_told_no_more() -> None:
    made = choice([1])
    made.hear(finding(cluster="c", job="train", ranks=[1], revision=2, state="recovered"))
    assert [step.rank for step in made.update(message(1, [3], t0_s=1000.0))] == [0]


@pytest.mark.parametrize("url", ["ftp://host", "http://ada:secret@host", "host:4318", "http://"])
def test_no_address_is_refused_and_no_login_is_shown(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--endpoint", url])
    assert "secret" not in capsys.readouterr().err
