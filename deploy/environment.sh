#!/usr/bin/env bash
# Build the virtual environment $1 from a hashed lock ($2, default requirements.lock), with this checkout in it or with
# the built wheel $3. Needs python3 with pip, or uv.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=$1
lock=${2:-requirements.lock}
wheel=${3:-}
python=${PYTHON:-python3}
uv_version=0.13.8

die() {
  echo "environment.sh: $*" >&2
  exit 2
}

# A folder of its own: `pip install --user` is refused where the system's Python is externally managed.
private_uv() {
  local folder=$PWD/.paceline/uv
  if [ ! -x "$folder/bin/uv" ]; then
    command -v "$python" >/dev/null || die "$python is missing; mend: install Python 3.11 or newer, or uv"
    echo "environment.sh: fetching uv into $folder" >&2
    PIP_ROOT_USER_ACTION=ignore "$python" -m pip install --quiet --disable-pip-version-check --target "$folder" "uv==$uv_version" >&2 ||
      die "neither uv nor pip works here; mend: sudo apt-get install python3-pip"
  fi
  echo "$folder/bin/uv"
}

uv=$(command -v uv || private_uv)
new_enough='import sys; sys.exit(sys.version_info < (3, 11))'
"$python" -c "$new_enough" 2>/dev/null || python=3.12 # uv finds or fetches it
"$uv" venv --quiet --allow-existing --python "$python" "$venv"
# Compiled once, here: many processes that start together would each compile PyTorch anew.
"$uv" pip sync --quiet --compile-bytecode --python "$venv/bin/python" --require-hashes "$lock"
if [ -n "$wheel" ]; then
  "$uv" pip install --quiet --python "$venv/bin/python" --no-deps --reinstall-package paceline "$wheel"
  exit
fi
"$uv" pip install --quiet --python "$venv/bin/python" --no-deps --no-build-isolation --editable .
"$venv/bin/python" -m compileall -q collectors control forecaster importers paceline simulator streams ui
