#!/bin/sh
# Slurm's TaskProlog: times the training of jobs that ask for it (PACELINE_WATCH=1), with their scripts unchanged.
#
# It runs as the job's owner, on every node, before each task; what it prints as "export NAME=value" the task sees. The
# node's first task starts the sidecar that takes the timings of all tasks of its step there; task-epilog.sh ends it.
# It waits for nothing, and ends with 0 whatever happens: a task whose prolog fails does not run.
# task.conf beside it says where Paceline is. Nothing here runs as root.
trap "exit 0" EXIT
umask 077

# A batch script is no task; where `paceline run` wraps the task there is a socket already, and somebody listens. A name
# that is none, or that a prolog made for another step, was passed on by sbatch or salloc.
[ -n "${SLURM_STEP_ID:-}" ] || exit 0
case ${PACELINE_SOCKET:-} in */paceline-*/[0-9]*.*.*.*) ;; *) [ ! -S "${PACELINE_SOCKET:-}" ] || exit 0 ;; esac

wanted=${PACELINE_WATCH:-} python='' bootstrap=''
# shellcheck source=/dev/null
. "${0%/*}/task.conf" 2>/dev/null || exit 0
[ "${wanted:-${PACELINE_WATCH:-0}}" = 1 ] || exit 0
if [ -z "$bootstrap" ]; then
  for bootstrap in "${python%/bin/*}"/lib/python3*/site-packages/paceline/training/bootstrap; do :; done
fi
# Not on this node: untimed, and nobody need know.
[ -x "$python" ] && [ -d "$bootstrap" ] || exit 0

uid=$(id -u)
# sbatch passes on what the login node calls the runtime folder, which this node need not have.
base=${XDG_RUNTIME_DIR:-/tmp}
[ -d "$base" ] || base=/tmp
folder=$base/paceline-$uid
[ -d "$folder" ] || mkdir -m 700 "$folder" 2>/dev/null
# Somebody else's folder of that name, or a link to one, is refused.
[ -d "$folder" ] && [ ! -L "$folder" ] && [ "$(stat -c %u:%a "$folder")" = "$uid:700" ] || exit 0

socket=$folder/$SLURM_JOB_ID.$SLURM_STEP_ID.${SLURM_RESTART_COUNT:-0}.${SLURMD_NODENAME:-node}
: >"$socket.task.${SLURM_LOCALID:-0}"
if [ "${SLURM_LOCALID:-0}" = 0 ]; then
  # Slurm kills what is left in the prolog's process group: the sidecar leaves it before the prolog ends. Whatever held
  # standard output open would keep the task waiting. It lives until the epilog ends it. Half a second at most.
  # shellcheck disable=SC2016
  setsid sh -c 'echo "$$" >"$2.pid"; exec "$1" -P -m paceline.sidecar --socket "$2" --until-empty --patience 864000' \
    sh "$python" "$socket" </dev/null >"$socket.log" 2>&1 &
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25; do
    [ -s "$socket.pid" ] && break
    sleep 0.02
  done
fi
echo "export PACELINE_SOCKET=$socket"
echo "export PYTHONPATH=$bootstrap${PYTHONPATH:+:$PYTHONPATH}"
