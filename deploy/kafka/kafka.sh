#!/usr/bin/env bash
# Apache Kafka, natively: one KRaft node in the foreground, on 127.0.0.1 alone. Data is kept between starts.
#
#   PORT=9092            port of the broker
#   DATA=FOLDER          where its data lives (default: deploy/kafka/data)
#   HEAP=512m            heap of the Java machine
#   LOG_LEVEL=warn       what the broker prints: error, warn, info, debug
#   JAVA_OPTIONS='-D…'   words for the broker's Java: system properties that Apache Kafka reads; no secrets
#   EXTRA_PROPERTIES=F   a file of broker properties that win over server.properties (TLS, SASL, ACLs)
#   SCRAM_USERS='a=pw b=pw'   SCRAM-SHA-512 users, written when DATA is first formatted; from the environment alone:
#                        `make kafka SCRAM_USERS=...` would show passwords to everyone on this machine
#   SCRAM_USERS_FILE=F   a file with more of them, one name=password a line; better
#
# `kafka.sh fetch` only downloads the pinned release (status 3: not to be had, after three tries). What is fetched is shared by every broker of this checkout.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../tries.sh"
port=${PORT:-9092}
data=${DATA:-$here/data}
declare +x SCRAM_USERS  # Java need not inherit it.

die() { # why, and the status (2)
  echo "kafka.sh: $1" >&2
  exit "${2:-2}"
}

answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

check_tools() {
  local install="fix: sudo apt-get install openjdk-17-jre-headless maven"
  command -v java >/dev/null || die "java is missing (17 or newer); $install"
  local version
  version=$(java -version 2>&1 | sed -nE 's/.*version "([0-9]+).*/\1/p' | head -1)
  [ "${version:-0}" -ge 17 ] || die "java ${version:-of unknown version} is too old, 17 or newer is needed; $install"
  command -v flock >/dev/null || die "flock is missing; fix: install util-linux"
}

fetch_aside() {
  rm -rf "$1"
  mvn --batch-mode --quiet -Dstyle.color=never --file "$here/pom.xml" dependency:copy-dependencies -DoutputDirectory="$1" >&2
}

# The folder is named after the pom, filled aside and renamed: a parallel caller sees all of it or nothing.
fetch() {
  libs=$here/libs/$(cksum <"$here/pom.xml" | cut -d' ' -f1)
  [ -d "$libs" ] && return
  command -v mvn >/dev/null || die "mvn is missing; fix: sudo apt-get install maven"
  mkdir -p "$here/libs"
  exec 9>"$here/libs/.lock"
  flock 9
  if [ ! -d "$libs" ]; then
    echo "kafka.sh: fetching Apache Kafka (once, about 60 MB)" >&2
    tries fetch_aside "$libs.part" || die "Maven could not fetch Apache Kafka; its message is above" $NOT_TO_BE_HAD
    mv "$libs.part" "$libs"
  fi
  exec 9>&-
}

check_port() {
  [[ $port =~ ^[0-9]+$ ]] && [ "$port" -ge 1 ] && [ "$port" -le 65535 ] || die "PORT=$port: allowed: 1 to 65535"
  if answers "$port"; then die "port $port is taken; fix: make kafka PORT=$((port + 1)), or stop what listens there"; fi
}

# Below the range that the kernel hands out to clients and to port 0.
free_port() {
  local candidate
  for _ in {1..50}; do
    candidate=$((20000 + RANDOM % 10000))
    if ! answers "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  die "no free port for the controller between 20000 and 30000"
}

write_properties() {
  local controller
  controller=$(free_port)
  {
    cat "$here/server.properties"
    echo "listeners=CLIENT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller"
    echo "advertised.listeners=CLIENT://127.0.0.1:$port"
    echo "controller.quorum.voters=1@127.0.0.1:$controller"
    echo "log.dirs=$data/log"
    if [ -n "${EXTRA_PROPERTIES:-}" ]; then
      echo
      cat "$EXTRA_PROPERTIES"
    fi
  } >"$data/server.properties"
}

scram_arguments() {
  local user lines=()
  for user in ${SCRAM_USERS:-}; do lines+=("$user"); done
  if [ -n "${SCRAM_USERS_FILE:-}" ]; then
    while IFS= read -r user || [ -n "$user" ]; do
      if [ -n "$user" ]; then lines+=("$user"); fi
    done <"$SCRAM_USERS_FILE"
  fi
  for user in "${lines[@]}"; do
    [[ $user == ?*=?* ]] || die "SCRAM_USERS: a user without a password; allowed: name=password"
    printf '%s\n' --add-scram "SCRAM-SHA-512=[name=${user%%=*},password=${user#*=}]"
  done
}

# The formatter takes arguments from a file, one a line: on a command line everyone would see the passwords. It prints
# salted keys of SCRAM users: its output is kept from the log, shown only when it fails.
format() {
  [ -e "$data/formatted" ] && return
  local output failed=0 arguments=$data/format.arguments users=()
  rm -f "$arguments"
  if ! (umask 077 && scram_arguments >"$arguments"); then
    rm -f "$arguments"
    exit 2
  fi
  if [ -s "$arguments" ]; then users=("@$arguments"); fi  # An empty file would be an empty argument.
  output=$(java -Xmx128m -cp "$libs/*" "-Dlog4j2.configurationFile=$here/log4j2.properties" kafka.tools.StorageTool \
    format --ignore-formatted --cluster-id paceline-native-kafka0 \
    --config "$data/server.properties" "${users[@]}" 2>&1) || failed=1
  rm -f "$arguments"
  [ "$failed" = 0 ] || die "formatting $data failed: $output"
  touch "$data/formatted"
}

start() {
  check_port
  if [ -n "${EXTRA_PROPERTIES:-}" ] && [ ! -r "$EXTRA_PROPERTIES" ]; then
    die "EXTRA_PROPERTIES=$EXTRA_PROPERTIES: cannot be read"
  fi
  if [ -n "${SCRAM_USERS_FILE:-}" ] && [ ! -r "$SCRAM_USERS_FILE" ]; then
    die "SCRAM_USERS_FILE=$SCRAM_USERS_FILE: cannot be read"
  fi
  (umask 077 && mkdir -p "$data")
  # The broker inherits this lock and holds it as long as it lives.
  exec 8>"$data/.owner"
  flock --nonblock 8 || die "DATA=$data is in use by another broker; fix: name another folder with DATA="
  (umask 077 && write_properties)
  format
  local options=()
  read -ra options <<<"${JAVA_OPTIONS:-}"
  echo "kafka.sh: Apache Kafka on 127.0.0.1:$port, data in $data; stop with Ctrl-C" >&2
  exec java -Xms128m "-Xmx${HEAP:-512m}" -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:+ExitOnOutOfMemoryError \
    -Djava.awt.headless=true "-Dlog4j2.configurationFile=$here/log4j2.properties" \
    "-Dkafka.log.level=${LOG_LEVEL:-warn}" "${options[@]}" -cp "$libs/*" kafka.Kafka "$data/server.properties"
}

case ${1:-start} in
  fetch) check_tools && fetch ;;
  start) check_tools && fetch && start ;;
  *) die "unknown command $1; there are: start, fetch" ;;
esac
