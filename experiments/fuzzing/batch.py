"""So many changed inputs of a target, without atheris: ``python -m experiments.fuzzing.batch files.dcgm``.

Rule of this file: seeded, so that a run can be repeated. libFuzzer, which looks for new paths, is ``make fuzz``.
"""

import argparse
import sys
from random import Random

from .mutation import mutated
from .target import Target, place_of
from .targets import of

#: What stands in place of a number or a piece of a line.
_ODD = (
    b"",
    b" ",
    b"\x00",
    b"\xff\xfe",
    b"-1",
    b"0",
    b"NaN",
    b"1e309",
    b"9" * 400,
    b'"',
    b"{",
    b"}",
    b"\\",
    b"# ",
    b":",
)


def changed(target: Target, data: bytes, rng: Random) -> bytes:
    """``data`` with one to four of its values, lines or bytes changed, or cut short."""
    if rng.random() < 0.5:
        whole = mutated(target.form, data, rng)
        if whole is not None:
            return whole
    for _ in range(rng.randint(1, 4)):
        data = _change(data, rng)
    return data


def _change(data: bytes, rng: Random) -> bytes:
    at, action = rng.randrange(len(data) + 1), rng.randrange(6)
    if action == 0:
        return data[:at]
    if action == 1:
        return data[:at] + rng.choice(_ODD) + data[at + rng.randrange(20) :]
    if action == 2:
        return data[:at] + rng.randbytes(1) + data[at + 1 :]
    lines = data.split(b"\n")
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    if action == 3:
        lines[one], lines[other] = lines[other], lines[one]
    elif action == 4:
        lines.insert(one, lines[other])
    else:
        words = lines[one].split(b" ")
        words[rng.randrange(len(words))] = rng.choice(_ODD)
        lines[one] = b" ".join(words)
    return b"\n".join(lines)


def main() -> int:
    """Try them; 1 where one of them did more than its target may."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    target = of(options.target.partition(".")[0])[options.target]
    rng, seeds = Random(options.seed), list(target.seeds())
    taken = 0
    found: dict[str, tuple[str, bytes]] = {}
    for _ in range(options.count):
        data = changed(target, rng.choice(seeds), rng)
        try:
            taken += target.check(data)
        except Exception as error:
            found.setdefault(place_of(error), (str(error)[:200], data[:2000]))
    print(f"{options.target}: {options.count:,} inputs, {taken:,} taken, {len(found)} findings")
    for place, (says, data) in found.items():
        print(f"  {place}: {says}\n    {data!r}")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
