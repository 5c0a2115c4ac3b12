"""A description of a fleet is read as it is meant, and what is wrong with it costs one sentence with its place."""

import pytest

from simulator.fleet_file import FleetError, read
from simulator.moments import seconds, unix

FLEET = """\
duration: 10m
nodes:
  - {name: a, count: 2, gpus: 2}
  - {name: b, gpus: 4}
jobs:
  - name: llama
    nodes: ["a-[0000-0001]"]
    end: 8m
"""


def test_a_description_is_read():
    """Ranges of nodes, lengths of time, moments and defaults."""
    spec = read(FLEET + "    start: 2026-01-05T00:01:30Z\n    step: 250ms\nclocks: {b: -0.5}\n")
    (job,) = spec.jobs
    assert job.nodes == ("a-0000", "a-0001")
    assert spec.span(job) == (90.0, 480.0)
    assert (job.step, spec.gpus(job), spec.clocks) == (0.25, (0, 1), {"b": -0.5})
    assert list(spec.groups) == ["a-0000", "a-0001", "b"]


def test_start_and_seed_can_be_given_instead():
    """What the command's options say comes first, then the file, then the default."""
    day_s = unix("2026-02-03")
    assert read(FLEET, otherwise_s=day_s).start_s == day_s
    assert read(FLEET + "start: 2026-05-06\n", otherwise_s=day_s).start_s == unix("2026-05-06")
    assert read(FLEET + "start: 2026-05-06\nseed: 3\n", start_s=day_s, seed=4).start_s == day_s
    assert read(FLEET + "seed: 3\n", seed=4).seed == 4


def test_jobs_may_follow_each_other_to_the_moment():
    """One ends when the next begins; the same name may come again as another attempt, on other GPUs at once."""
    more = "  - {name: llama, attempt: 1, nodes: [a-0000], start: 8m}\n  - {name: c, nodes: [b], gpus: [3]}\n"
    assert len(read(FLEET + more + "  - {name: d, nodes: [b], gpus: [0]}\n").jobs) == 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90s", 90), ("2h", 7200), ("1h30m", 5400), ("1.5m", 90), ("250ms", 0.25), ("2d", 172_800), ("12", 12)],
)
def test_lengths_of_time(text, expected):
    """As people write them."""
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "2 weeks", "h2", "-3s", "1h-2m", "nan", "inf", "1e3", "9" * 400 + "d", "\uff15s"])
def test_what_is_no_length_of_time(text):
    """It is refused, and quoted in short."""
    with pytest.raises(ValueError, match=r"length of time|longer than") as error:
        seconds(text)
    assert len(str(error.value)) < 120


@pytest.mark.long
@pytest.mark.parametrize(
    ("more", "line", "said"),
    [
        # keys and types
        ("bogus: 1", 9, "bogus: no such key; there are duration, nodes, jobs"),
        ("    setp: 1s", 9, r"jobs\[0\].setp: no such key; there are name, nodes"),
        ("    faults: [{kind: gc, rank: 1}]", 9, r"jobs\[0\].faults\[0\].rank: no such key"),
        ("seed: many", 9, "seed: expected `int`, not 'many'"),
        ("seed: -1", 9, "seed: expected `int` >= 0, not '-1'"),
        ("seed: " + "9" * 30, 9, "seed: expected `int` <= "),
        ("    phases: perhaps", 9, r"jobs\[0\].phases: expected `bool`, not 'perhaps'"),
        ("silences: none", 9, "silences: expected `array`, not 'none'"),
        ("    step: 1 fortnight", 9, r"jobs\[0\].step: '1 fortnight' is no length of time; write 90s"),
        ("    start: [1]", 9, r"jobs\[0\].start: a length of time is a word"),
        ("start: 2h", 9, "start: a moment such as 2026-01-05T08:00:00Z, from the year 2000 on"),
        ("start: 2026-13-01", 9, "start: '2026-13-01' is no moment"),
        ("start: 0001-01-01T00:00:00+14:00", 9, "start: "),
        ("    name: llama2", 9, "name is given twice"),
        # bounds
        ("    step: 0", 9, "a step takes 0.1 ms at least"),
        ("    step: 25s", 6, r"jobs\[0\]: 480 s are no time for 20 steps of 25 s"),
        ("    noise: nan", 9, "noise: expected `float` >= 0.0, not 'nan'"),
        ("    uneven: .inf", 9, "uneven: expected `float`, not '.inf'"),
        ("    stage_skew: {0: nan}", 9, r"jobs\[0\].stage_skew\[...\]: expected `float` > 0.0"),
        ("    evaluate: inf", 9, "evaluate: 'inf' is no length of time"),
        ("    tp: 0", 6, "ranks, dp, tp and pp are 1 or more"),
        ("    pp: 3", 6, r"jobs\[0\]: dp 1 x tp 1 x pp 3 is 3, not 4 ranks"),
        ("sampling: {every: 1ms}", 9, "sampling: every is 100ms or more"),
        ("sampling: {every: 100ms, message: 1h}", 9, "sampling: a message holds 1000 samples at most"),
        ("clocks: {b: 1e9}", 9, r"clocks\[...\]: expected `float` <= 86400.0"),
        # what leads nowhere
        ("clocks: {c: 1}", 9, "clocks.c: there is no such node"),
        ("silences: [{node: c, from: 1m, to: 2m}]", 9, r"silences\[0\]: there is no node c"),
        ("  - {name: x, nodes: [a]}", 9, r"jobs\[1\].nodes: there is no node a"),
        ("  - {name: x, nodes: [b, b]}", 9, r"jobs\[1\].nodes: a node is given twice"),
        ("  - {name: x, nodes: [b], gpus: [4]}", 9, r"jobs\[1\].gpus: node b has no GPU 4; it has 4, from 0"),
        ("  - {name: x, nodes: [b], gpus: [1, 1]}", 9, r"jobs\[1\].gpus: at least one, and none twice"),
        ("  - {name: x, nodes: [b, a-0000], start: 9m}", 9, "unequal numbers of GPUs; say which"),
        ("    faults: [{kind: gc, ranks: [4]}]", 9, r"jobs\[0\].faults\[0\]: ranks of this job run from 0 to 3"),
        ("    faults: [{kind: gc}]", 9, "which ranks?"),
        ("    faults: [{kind: melt, ranks: [0]}]", 9, "no kind 'melt'; there are compute, throttle"),
        ("    faults: [{kind: throttle, ranks: [0], reason: rust}]", 9, "no reason 'rust'; there are thermal"),
        ("    faults: [{kind: link, ranks: [0]}]\n    collectives: 0", 9, "kind link shows in collectives"),
        ("    kind: idle\n    faults: [{kind: gc, ranks: [0]}]", 10, "a job of kind idle has no steps"),
        # names
        ("  - {name: llama, nodes: [b]}", 9, r"jobs\[1\]: there is a job llama of attempt 0 already"),
        ("  - {name: 'a b', nodes: [b]}", 9, r"jobs\[1\].name: expected `str` matching regex"),
        # times
        ("  - {name: x, nodes: [b], end: 11m}", 9, "ends at 660 s, the fleet at 600 s: end it earlier, or give no end"),
        ("  - {name: x, nodes: [b], start: 5m, end: 5m}", 9, "it ends after it starts"),
        ("  - {name: x, nodes: [b], start: 2020-01-01}", 9, "it ends after it starts, at 0 or later"),
        ("  - {name: x, nodes: [a-0001], start: 7m}", 9, "llama and x both have GPU 0 of a-0001 at 420 s"),
        ("    faults: [{kind: gc, ranks: [0], from: 9m}]", 9, "of a job that has 480 s"),
        ("    faults: [{kind: gc, ranks: [0], from: 3m, to: 2m}]", 9, "from 180 s to 120 s of a job"),
        ("    faults: [{kind: hang, ranks: [0], from: 2m}, {kind: gc, ranks: [0], from: 3m}]", 9, "hangs already"),
        ("silences: [{node: b, from: 2m, to: 1m}]", 9, "it ends after it begins"),
        ("silences: [{node: b, from: 10m, to: 11m}]", 9, "begins at 600 s; the fleet ends at 600 s"),
        # what would grow
        ("x: &bomb [1]\ny: [*bomb, *bomb]", 10, r"\*bomb: aliases are not read"),
        ("x: " + "[" * 2000, 9, "nested deeper than"),
        ("  - {name: x, nodes: ['b[0-999999999]']}", 9, r"jobs\[1\].nodes: more than 10000"),
        ("#" * 300_000, 1, "characters; 262144 are read at most"),
        # no YAML, or not ours
        ("\tx: 1", 9, "found character"),
        ("? [a]\n: 1", 9, "a key is a word"),
        ("---\na: 1", 9, "expected a single document in the stream"),
        ("x: \x01", 1, "special characters are not allowed"),
        ("x: !!python/object/apply:os.system [ls]", 9, "x: no such key"),
    ],
)  # fmt: skip
def test_what_is_wrong_costs_one_sentence_with_its_place(more, line, said):
    """File, line, part and reason, on one line that is not long."""
    with pytest.raises(FleetError, match=said) as error:
        read(FLEET + more + "\n", "fleet.yaml")
    assert str(error.value).startswith(f"fleet.yaml, line {line}: ")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the whole: object missing required field `duration`"),
        ("[1]", "the whole: expected `object`"),
        ("duration: 1h\nnodes: []", "nodes: expected `array` of length >= 1"),
        ("duration: 0\nnodes: [{name: a}]", "duration: 0 s; from 1 s to 366 d"),
        ("duration: 400d\nnodes: [{name: a}]", "duration: 3.456e.07 s; from 1 s"),
        ("duration: 1h\nnodes: [{name: a, count: 0}]", r"nodes\[0\].count: expected `int` >= 1, not '0'"),
        ("duration: 1h\nnodes: [{name: a, count: 999999999}]", r"nodes\[0\].count: expected `int` <= 10000"),
        ("duration: 1h\nnodes: [{name: a, count: 9999}, {name: b, count: 9999}]", "nodes: more than 10000 in all"),
        ("duration: 1h\nnodes: [{name: a, count: 2}, {name: a-0001}]", r"nodes\[1\].name: there is a node a-0001"),
        ("duration: 1h\nnodes: [{name: a, day: [0.5]}]", r"nodes\[0\].day: 1 numbers; one for each of 24 hours"),
        (
            "duration: 1h\nnodes: [{name: a, count: 10000, gpus: 64}]\njobs:\n"
            + "".join(f"  - {{name: j{at}, nodes: ['a-[0000-9999]'], start: {at}m, end: {at}m59s}}\n" for at in (0, 1)),
            r"jobs\[1\]: more than 1000000 ranks in all jobs",
        ),
        (
            "duration: 1h\nnodes: [{name: a, count: 1000}]\njobs: [{name: j, nodes: ['a-[0000-0999]'], fsdp: true, "
            "collectives: 1024, microbatches: 1024}]",
            r"jobs\[0\]: one step holds \d+ numbers .* 20000000 at most",
        ),
    ],
)  # fmt: skip
def test_a_fleet_that_cannot_be_is_refused(text, said):
    """Without nodes, without time, or larger than a machine can hold."""
    with pytest.raises(FleetError, match=said):
        read(text)
