#!/usr/bin/env bash
# Build the virtual environment $1 from a hashed lock ($2, default requirements.lock), with this checkout in it or with
# the built wheel $3. Needs python3 with pip, or uv. Status 3: a package was not to be had, after three tries.
set -euo pipefail
cd "$(dirname "$0")/.."
source deploy/tries.sh

venv=$1
lock=${2:-requirements.lock}
wheel=${3:-}
python=${PYTHON:-python3}
uv_version=0.13.8

# Elsewhere than on a terminal, where uv shows it: a line every few seconds, until it is ended.
progress() {
  local began=$SECONDS never
  exec {never}<> <(:) # A `sleep` would outlive this, and hold on to what reads our lines.
  until read -rt "${PROGRESS_S:-5}" -u "$never"; do
    echo "environment.sh: $((SECONDS - began)) s: $(installed) of at most $packages packages installed" >&2
  done
}

installed() { # Deeper ones came within a package; some of the lock are for other versions of Python.
  find "$venv" -maxdepth 4 -name '*.dist-info' | wc -l
}

# uv says what it fetches, and how large that is. It compiles nothing: of 25,500 files `make test` imports 7,000, and
# whoever is the first to import one keeps its bytecode.
sync() {
  "$uv" pip sync --python "$venv/bin/python" --require-hashes "$lock"
}

# Its list of all that it has installed is left out.
sync_in_lines() {
  local status=0
  progress &
  local shown=$!
  tries sync 2> >(grep --line-buffered -v '^ [-+~] ' >&2) || status=$?
  wait "$!" # the last lines
  kill "$shown"
  return "$status"
}

die() { # status, why
  echo "environment.sh: $2" >&2
  exit "$1"
}

# A folder of its own: `pip install --user` is refused where the system's Python is externally managed.
private_uv() {
  local folder=$PWD/.paceline/uv
  if [ ! -x "$folder/bin/uv" ]; then
    command -v "$python" >/dev/null || die 2 "$python is missing; fix: install Python 3.11 or newer, or uv"
    echo "environment.sh: fetching uv into $folder" >&2
    "$python" -m pip --version >/dev/null 2>&1 || die 2 "neither uv nor pip is here; fix: sudo apt-get install python3-pip"
    PIP_ROOT_USER_ACTION=ignore tries "$python" -m pip install --quiet --disable-pip-version-check --target "$folder" \
      "uv==$uv_version" >&2 || die $NOT_TO_BE_HAD "uv $uv_version could not be fetched from the package index; pip's message is above"
  fi
  echo "$folder/bin/uv"
}

uv=$(command -v uv || private_uv) || exit
packages=$(grep -c '^[a-z].*==' "$lock")
size=$(grep -q '^torch==' "$lock" && echo ", 5 to 7 GB with PyTorch" || true)
echo "environment.sh: $venv: $packages packages of $lock$size" >&2
new_enough='import sys; sys.exit(sys.version_info < (3, 11))'
"$python" -c "$new_enough" 2>/dev/null || python=3.12 # uv finds or fetches it
"$uv" venv --quiet --allow-existing --python "$python" "$venv"
{ if [ -t 2 ]; then tries sync; else sync_in_lines; fi; } ||
  die $NOT_TO_BE_HAD "the packages of $lock could not be installed; uv's message is above"
if [ -n "$wheel" ]; then
  "$uv" pip install --quiet --python "$venv/bin/python" --no-deps --reinstall-package paceline "$wheel"
  exit
fi
"$uv" pip install --quiet --python "$venv/bin/python" --no-deps --no-build-isolation --editable .
"$venv/bin/python" -m compileall -q annotator archive collectors control forecaster importers paceline postmortem simulator streams trials ui
