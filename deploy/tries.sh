# Read by the scripts that fetch something: a registry that fails once may answer the next time.
#
# `tries COMMAND…` runs it up to three times, with TRIES_PAUSE_S (5) seconds and then three times as many in between.
# Whoever gives up for that reason ends with status $NOT_TO_BE_HAD: the environment failed, not what is tested in it.
NOT_TO_BE_HAD=3

tries() {
  local pause=${TRIES_PAUSE_S:-5} attempt
  for attempt in 1 2; do
    "$@" && return
    echo "$(basename "$0"): try $attempt of 3 failed; again in $pause s" >&2
    sleep "$pause"
    pause=$((3 * pause))
  done
  "$@"
}
