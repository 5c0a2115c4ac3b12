#!/usr/bin/env bash
# What users get is the wheel: build it, install it beside nothing but the lock, and test it outside of the checkout.
set -euo pipefail
cd "$(dirname "$0")/.."
checkout=$PWD
work=$(mktemp -d "${TMPDIR:-/tmp}/paceline-wheel.XXXXXX")
trap 'rm -rf "$work"' EXIT

uv=$(command -v uv || echo "$checkout/.paceline/uv/bin/uv")
echo "wheel-test.sh: building the wheel" >&2
"$uv" build --quiet --wheel --no-build-isolation --python .venv/bin/python --out-dir "$work/dist" .
"$uv" venv --quiet --python .venv/bin/python "$work/venv"
"$uv" pip sync --quiet --python "$work/venv/bin/python" --require-hashes requirements.lock
"$uv" pip install --quiet --python "$work/venv/bin/python" --no-deps "$work"/dist/*.whl

# An image holds its own lock and the wheel, nothing else: each service must start with that.
declare -A command=([collectors]=collect [streams]=streams [forecaster]=forecaster [ui]=ui)
for service in "${!command[@]}"; do
  "$uv" venv --quiet --python .venv/bin/python "$work/$service"
  "$uv" pip sync --quiet --python "$work/$service/bin/python" --require-hashes "deploy/requirements/$service.lock"
  "$uv" pip install --quiet --python "$work/$service/bin/python" --no-deps "$work"/dist/*.whl
  (cd "$work" && "$service/bin/paceline" "${command[$service]}" --help >/dev/null && "$service/bin/paceline" topics --help >/dev/null)
done

cp -r tests pyproject.toml "$work/"
cd "$work"
echo "wheel-test.sh: testing the installed wheel in $work" >&2
venv/bin/python -P - <<'PYTHON'
from importlib.metadata import entry_points
from pathlib import Path

import collectors, forecaster, paceline, streams, ui

for package in (paceline, collectors, streams, forecaster, ui):
    assert "site-packages" in package.__file__, f"{package.__name__} is not the installed one: {package.__file__}"
for entry in entry_points(group="paceline.commands"):
    entry.load()
assert (Path(paceline.__file__).parent / "py.typed").exists()
PYTHON
venv/bin/paceline --version
# Unit tests only: those with brokers, browsers and processes ran on the checkout. Deployment files and docs are not in a wheel.
PYTHONPATH=tests/plugins venv/bin/python -P -m pytest -q -p no_skips -p no:cacheprovider \
  -m 'not (bus or browser or e2e or network or gpu)' \
  --ignore tests/deploy --ignore tests/test_house.py --ignore tests/paceline/test_documents.py --ignore tests/streams/devices/test_page.py \
  --ignore tests/experiments "$@"
