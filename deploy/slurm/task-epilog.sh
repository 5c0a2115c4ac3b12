#!/bin/sh
# Slurm's TaskEpilog: with the last task of a step on this node, the sidecar that task-prolog.sh started is told to end.
#
# It runs as the job's owner after each task. The sidecar sends what it has within three seconds, for which the last
# task's epilog waits: what is left of a step's processes after that, Slurm kills. What Kafka did not take by then lies
# on disk, and the next sidecar of this user on this node sends it. It ends with 0 whatever happens.
trap "exit 0" EXIT
[ -n "${SLURM_STEP_ID:-}" ] || exit 0

# The runtime folder may have come or gone with a login since the prolog: the task's own file says where it is.
name=paceline-$(id -u)/$SLURM_JOB_ID.$SLURM_STEP_ID.${SLURM_RESTART_COUNT:-0}.${SLURMD_NODENAME:-node}
socket=''
for base in "${XDG_RUNTIME_DIR:-/tmp}" /tmp; do
  if [ ! -L "$base/${name%%/*}" ] && [ -O "$base/${name%%/*}/." ] && [ -e "$base/$name.task.${SLURM_LOCALID:-0}" ]; then
    socket=$base/$name
    break
  fi
done
[ -n "$socket" ] || exit 0
rm -f "$socket.task.${SLURM_LOCALID:-0}"
for left in "$socket".task.*; do
  # Others of the step still run here.
  [ -e "$left" ] && exit 0
done
{ read -r pid <"$socket.pid"; } 2>/dev/null || exit 0
kill -TERM "$pid" 2>/dev/null
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
  kill -0 "$pid" 2>/dev/null || break
  sleep 0.1
done
# What the sidecar complained of stays; silence leaves nothing.
[ -s "$socket.log" ] || rm -f "$socket.log"
rm -f "$socket.pid" "$socket.lock" "$socket.attempt" "$socket"
