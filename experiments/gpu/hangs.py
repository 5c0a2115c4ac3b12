"""Cases of hangs: four ranks share the device, one leaves the others waiting, and Paceline says which and why."""

from functools import partial

from experiments.gpu.bench import Bench
from experiments.gpu.case import Case, Reading

RANKS, ODD = 4, 2


def _named(bench: Bench, how: str, kind: str, word: str) -> Reading:
    run = bench.watched("hanging", f"--backend={bench.backend}", f"--how={how}", ranks=RANKS, may_fail=True)
    findings = [finding for finding in bench.findings(run) if finding["kind"] in ("hang", "died")]
    accused = {rank for finding in findings for rank in finding["ranks"]}
    confirmed = [finding for finding in findings if finding["kind"] == kind and finding["state"] == "confirmed"]
    said = (
        confirmed[0]["summary"] if confirmed else f"no {kind} confirmed, {len(run.rows)} steps told: {run.said[-200:]}"
    )
    return Reading(f"over {bench.backend}: {said}", accused == {ODD} and bool(confirmed) and word in said)


def _case(how: str, kind: str, word: str, proves: str) -> Case:
    predicted = f"rank {ODD} alone is named, {kind}: {word}"
    return Case(f"hang-{how}", 100, predicted, proves, partial(_named, how=how, kind=kind, word=word))


CASES = (
    _case("skip", "hang", "calls differ", "a rank in another collective of NCCL's under the same number"),
    _case("stop", "hang", "stopped", "a rank that SIGSTOP holds while the others wait in NCCL"),
    _case("kill", "died", "SIGKILL", "a rank that is killed while the others wait in NCCL"),
)
