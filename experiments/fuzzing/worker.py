"""One target under atheris for so many seconds; started by ``python -m experiments.fuzzing``, a process a target.

Rule of this file: it does not stop at a finding. The first input of each is kept in a file, and told on one line.
"""

import hashlib
import json
import os
import sys
import warnings
from pathlib import Path
from random import Random

import atheris

OURS = ["paceline", "streams", "importers", "forecaster", "collectors", "ui"]
#: Seconds after which libFuzzer takes an input for one that never ends, and MiB that the process may hold.
HANGS_S, MOST_MIB = 30, 4096
#: Further inputs of findings that are known are only counted.
MOST_FINDINGS = 50

name, seconds, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
with atheris.instrument_imports(include=OURS), warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from experiments.fuzzing.mutation import mutated
    from experiments.fuzzing.target import place_of
    from experiments.fuzzing.targets import of

    target = of(name.partition(".")[0])[name]
found: dict[str, str] = {}
#: What the target itself prints; findings and libFuzzer's own lines go to the real one.
told = sys.stderr
sys.stderr = sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - until this process ends


def test_one_input(data: bytes) -> None:
    """What libFuzzer calls."""
    try:
        target.check(data)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        place = place_of(error)
        if place not in found and len(found) < MOST_FINDINGS:
            path = folder / "findings" / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            found[place] = str(path)
            words = " ".join(str(error).split())[:200]
            print(json.dumps({"finding": place, "says": words, "file": str(path)}), file=told, flush=True)


def mutate(data: bytes, most: int, seed: int) -> bytes:
    """A change of one value where the form allows it, else what libFuzzer does to bytes."""
    rng = Random(seed)
    changed = mutated(target.form, data, rng) if rng.random() < 0.6 else None
    if changed is not None and len(changed) <= most:
        return changed
    return bytes(atheris.Mutate(data, most))


corpus, seeds = folder / "corpus" / name, folder / "seeds" / name
for path in (corpus, seeds):
    path.mkdir(parents=True, exist_ok=True)
for number, data in enumerate([*target.seeds(), *(path.read_bytes() for path in target.corpus())]):
    (seeds / f"{number:04d}").write_bytes(data)
options = [
    f"-max_total_time={seconds}",
    f"-max_len={target.longest}",
    f"-timeout={HANGS_S}",
    f"-rss_limit_mb={MOST_MIB}",
    f"-artifact_prefix={folder / 'findings'}/{name}-",
    "-print_final_stats=1",
    "-reload=0",
]
(folder / "findings").mkdir(parents=True, exist_ok=True)
atheris.Setup([sys.argv[0], *options, str(corpus), str(seeds)], test_one_input, custom_mutator=mutate)
atheris.Fuzz()
