#!/usr/bin/env bash
# What tests need from the system: Java and Maven (Apache Kafka), chromium, iproute2, Prometheus, Alertmanager,
# PostgreSQL, Pango (PDF), systemd's and shells' checkers. Installs only what is missing,
# where apt is allowed; elsewhere says which tests are skipped and what brings them. In CI a missing one is a failure.
# Status 3: apt is allowed, and a package was not to be had after three tries.
# `system-packages.sh images`: what `make images-check` needs as well; `slurm`: what `make slurm-check` does.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/tries.sh"
more=${1:-}
# Debian keeps ldconfig, slurmctld, munged and debootstrap out of a user's PATH.
PATH=$PATH:/usr/sbin:/sbin

have_java() {
  command -v java >/dev/null && [ "$(java -version 2>&1 | sed -nE 's/.*version "([0-9]+).*/\1/p' | head -1)" -ge 17 ]
}
have_chromium() { command -v chromium >/dev/null; }
have_prometheus() { command -v prometheus >/dev/null && command -v promtool >/dev/null; }

packages=() skipped=()
need() { # package, what is skipped without it, the check…
  local package=$1 tests=$2
  shift 2
  "$@" >/dev/null 2>&1 || { packages+=("$package") && skipped+=("$tests"); }
}

# No pipe: grep would end at its first match, and pipefail would then count ldconfig's broken pipe as "not there".
have_pango() { [[ $(ldconfig -p) == *libpangoft2-1.0.so.0* ]]; }
have_alertmanager() { command -v prometheus-alertmanager >/dev/null || command -v alertmanager >/dev/null; }

# Debian keeps its programs out of PATH, by version.
have_postgresql() { command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; }

need_java() {
  local java=openjdk-17-jre-headless
  apt-cache show "$java" >/dev/null 2>&1 || java=default-jre-headless
  packages+=("$java") skipped+=("bus tests on Apache Kafka")
}

check() {
  packages=() skipped=()
  have_java || need_java
  need maven "bus tests on Apache Kafka" command -v mvn
  need chromium "browser tests" have_chromium
  need iproute2 "network tests" command -v ip
  need prometheus "tests on a real Prometheus" have_prometheus
  need prometheus-alertmanager "tests on a real Alertmanager" have_alertmanager
  need postgresql "tests on a real PostgreSQL" have_postgresql
  need libpangoft2-1.0-0 "reports as PDF" have_pango
  need systemd "checks of systemd's units" command -v systemd-analyze
  need shellcheck "checks of Slurm's prolog" command -v shellcheck
  if [ "$more" = slurm ]; then
    need slurm-wlm "jobs on a real Slurm" command -v slurmctld
    need munge "jobs on a real Slurm" command -v munged
    need slurmdbd "accounting of a real Slurm" command -v slurmdbd
    need mariadb-server "accounting of a real Slurm" command -v mariadbd
    need mpich "jobs of MPICH" command -v mpiexec.hydra
    need openmpi-bin "jobs of Open MPI" command -v mpirun.openmpi
  fi
  if [ "$more" = images ]; then
    need buildah "images" command -v buildah
    need debootstrap "images" command -v debootstrap
  fi
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo --non-interactive "$@"; fi
}

may_install() {
  command -v apt-get >/dev/null && { [ "$(id -u)" -eq 0 ] || sudo --non-interactive true 2>/dev/null; }
}

install_missing() {
  as_root apt-get update --quiet=2 || true
  check # which Java there is to be had is known only now
  echo "system-packages.sh: installing ${packages[*]}" >&2
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends "${packages[@]}" \
    >/dev/null || true
  check
  [ ${#packages[@]} -eq 0 ]
}

check
[ ${#packages[@]} -eq 0 ] && exit 0
if may_install; then
  tries install_missing && exit 0
  echo "system-packages.sh: not to be had: ${packages[*]}; apt's messages are above" >&2
  exit $NOT_TO_BE_HAD
fi
for index in "${!packages[@]}"; do
  echo "system-packages.sh: no ${packages[$index]}: ${skipped[$index]} are skipped" >&2
done
echo "system-packages.sh: fix: sudo apt-get install ${packages[*]}" >&2
[ "${CI:-}" != true ] || exit 1
