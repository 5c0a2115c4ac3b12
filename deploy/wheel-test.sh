#!/usr/bin/env bash
# What users get is the wheel: build it, install it beside nothing but the lock, and test it outside of the checkout.
# `wheel-test.sh --quick`: that it holds the checkout's files and its commands start; else also each service in an
# environment of its own lock, and the tests that look for what is installed (further arguments are pytest's).
set -euo pipefail
unset PYTHONPATH # the wheel would be found after what it names
quick=
if [ "${1:-}" = --quick ]; then quick=yes && shift; fi
cd "$(dirname "$0")/.."
checkout=$PWD
work=$(mktemp -d "${TMPDIR:-/tmp}/paceline-wheel.XXXXXX")
trap 'rm -rf "$work"' EXIT

uv=$(command -v uv || echo "$checkout/.paceline/uv/bin/uv")
make --no-print-directory wheel >&2
wheel=$(echo "$checkout"/dist/paceline-*.whl)
"$uv" venv --quiet --python .venv/bin/python "$work/venv"
# The lock is what .venv holds; a path file sees its packages and not its editable install.
locked=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "$locked" >"$("$work/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/locked.pth"
"$uv" pip install --quiet --python "$work/venv/bin/python" --no-deps "$wheel"

# An image holds its own lock and the wheel, nothing else: each service must start with that.
declare -A command=([annotator]=annotate [archive]=archive [collectors]=collect [streams]=streams [forecaster]=forecaster [control]=control [ui]=ui)
declare -A module=([annotator]=annotator.service [archive]=archive.service [collectors]=collectors.agent [streams]=streams.worker [forecaster]=forecaster.server [control]=control.server [ui]=ui.screens.job)
starts() { # service: its own environment, in which its command explains itself and its heaviest module is imported
  local service=$1
  "$uv" venv --quiet --python .venv/bin/python "$work/$service"
  "$uv" pip sync --quiet --python "$work/$service/bin/python" --require-hashes "deploy/requirements/$service.lock"
  "$uv" pip install --quiet --python "$work/$service/bin/python" --no-deps "$wheel"
  cd "$work"
  "$service/bin/paceline" "${command[$service]}" --help >/dev/null
  "$service/bin/paceline" topics --help >/dev/null
  "$service/bin/python" -P -c "import paceline._services.${module[$service]}"
}
if [ -z "$quick" ]; then
  jobs=()
  for service in "${!command[@]}"; do
    starts "$service" &
    jobs+=("$!")
  done
  for job in "${jobs[@]}"; do wait "$job"; done
fi

cp -r tests pyproject.toml "$work/"
mkdir "$work/beside" && cp -r experiments "$work/beside/" # the page's tests open a browser as experiments do
cd "$work"
echo "wheel-test.sh: testing the installed wheel in $work" >&2
venv/bin/python -P - "$checkout" <<'PYTHON'
import filecmp
import sys
from importlib.metadata import entry_points, files as installed_files
from pathlib import Path

import paceline


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts}


home, checkout = Path(paceline.__file__).parent, Path(sys.argv[1])
assert home.is_relative_to(sys.prefix), f"not the installed one: {home}"
names = {file.parts[0] for file in installed_files("paceline")} - {".."}
assert {name for name in names if not name.endswith(".dist-info")} == {"paceline"}, f"more than one name: {names}"
services = sorted(folder.name for folder in (home / "_services").iterdir() if folder.is_dir() and folder.name != "__pycache__")
assert len(services) == 11, services
here = {f"_services/{service}/{name}" for service in services for name in files(checkout / service)}
assert files(home) == files(checkout / "paceline") | here, files(home) ^ (files(checkout / "paceline") | here)
for installed, source in [(home, checkout / "paceline"), *((home / "_services" / name, checkout / name) for name in services)]:
    same, changed, unread = filecmp.cmpfiles(installed, source, files(source), shallow=False)
    assert same and not changed and not unread, f"{source}: {changed + unread}"
for entry in entry_points(group="paceline.commands"):
    entry.load()
PYTHON
venv/bin/paceline --version
# A project's own folders of such names, on its PYTHONPATH, hide nothing of ours.
mkdir -p theirs/{collectors,control,importers,postmortem,simulator,streams,trials,ui}
for folder in theirs/*; do echo 'raise ImportError("a folder of the project")' >"$folder/__init__.py"; done
export PYTHONPATH=$work/theirs
for tool in analyze import simulate trial; do
  venv/bin/paceline "$tool" --help >/dev/null
done
unset PYTHONPATH
[ -z "$quick" ] || exit 0
# The same bytes and the same lock decide the same as on the checkout. What may differ where they are installed is how
# commands, entry points and files beside the code are found: these tests start commands or read such files. Those
# with brokers, browsers and training runs ran on the checkout. They import services by the names of a checkout.
services=$(venv/bin/python -P -c 'import paceline._services as services; print(*services.__path__)')
PYTHONPATH=$services:tests/plugins:beside venv/bin/python -P -m pytest -q -p no_skips -p no:cacheprovider \
  -m 'not (bus or browser or e2e or training or network or gpu)' \
  --numprocesses 2 --dist loadfile --deselect tests/forecaster/test_service.py::test_the_interface_keeps_its_word \
  tests/forecaster/job_kinds tests/forecaster/test_models.py tests/forecaster/test_service.py \
  tests/paceline/commands/test_run.py tests/streams/test_analyze.py tests/streams/test_command.py \
  tests/paceline/training/test_bootstrap.py tests/ui/test_command.py tests/ui/test_screens.py "$@"
