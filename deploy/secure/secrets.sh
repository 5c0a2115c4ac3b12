#!/usr/bin/env bash
# Makes what the secured stack needs into folder $1, a file each, and only what is missing: the authority, Kafka's
# certificate, passwords and tokens. Whoever may read that folder may log in, so that no other service mounts it: each
# gets its own files in a folder of its own. Nothing is printed but names.
#   ca.pem              the authority: what every client must trust
#   kafka.pem           Kafka's key and certificate, made again when it has less than 30 days left, or is for other names
#   kafka.names         the names that it is for
#   NAME.password       of the users in Kafka: paceline (the services), jobs (training jobs); of Grafana's admin
#   NAME.token          what page, forecaster and control ask of who wants to change something
# KAFKA_NAMES: further names by which Kafka is reached, as OpenSSL writes them: DNS:kafka.example,IP:192.0.2.7
set -euo pipefail
umask 077

folder=${1:?the folder}
shift
# Whose secrets go where: NAME=FOLDER, as kafka=/run/out/kafka.
declare -A out=()
for given in "$@"; do out[${given%%=*}]=${given#*=}; done
names=DNS:kafka,DNS:localhost,IP:127.0.0.1${KAFKA_NAMES:+,$KAFKA_NAMES}
# Users of the images that read a file: paceline/*, apache/kafka, grafana/grafana.
paceline=10001 kafka=1000 grafana=472

die() {
  echo "secrets.sh: $*" >&2
  exit 2
}

[ "${KAFKA_PROTOCOL:-}" = SASL_SSL ] ||
  die "profile secure needs the variables beside it, or nothing would be encrypted: docker compose --env-file deploy/secure.env up"
command -v openssl >/dev/null || die "openssl is missing"
for given in kafka services jobs grafana forecaster control ui; do
  [ -d "${out[$given]:-}" ] || die "no folder for $given: name it as $given=FOLDER"
done
cd "$folder" || die "$folder is no folder"

# A file is there whole or not at all.
put() { # file, user, mode; its content on standard input
  cat >"$1.part"
  if [ "$(id -u)" -eq 0 ]; then chown "$2" "$1.part"; fi
  chmod "$3" "$1.part"
  mv "$1.part" "$1"
  echo "secrets.sh: made $1" >&2
}

random() { openssl rand -hex 24; }

if [ ! -s ca.pem ] || [ ! -s ca.key ]; then
  openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt | put ca.key 0 0400
  openssl req -x509 -new -key ca.key -days 3650 -subj "/CN=Paceline $(openssl rand -hex 4)" \
    -addext basicConstraints=critical,CA:TRUE,pathlen:0 -addext keyUsage=critical,keyCertSign,cRLSign | put ca.pem 0 0444
  rm -f kafka.pem
fi

if [ ! -s kafka.pem ] || [ "$(cat kafka.names 2>/dev/null)" != "$names" ] ||
  ! openssl x509 -in kafka.pem -noout -checkend $((30 * 86400)) >/dev/null; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt >"$work/key"
  openssl req -new -key "$work/key" -subj /CN=kafka >"$work/request"
  printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth\n' "$names" >"$work/extensions"
  openssl x509 -req -in "$work/request" -CA ca.pem -CAkey ca.key -set_serial "0x$(openssl rand -hex 16)" -days 398 \
    -extfile "$work/extensions" >"$work/certificate" 2>"$work/said" || die "$(tail -1 "$work/said")"
  cat "$work/key" "$work/certificate" ca.pem | put kafka.pem "$kafka" 0400
  printf '%s\n' "$names" | put kafka.names 0 0400
fi

[ -s paceline.password ] || random | put paceline.password "$paceline" 0400
[ -s jobs.password ] || random | put jobs.password "$kafka" 0400
[ -s grafana.password ] || random | put grafana.password "$grafana" 0400
[ -s forecaster.token ] || random | put forecaster.token "$paceline" 0400
[ -s control.token ] || random | put control.token "$paceline" 0400
[ -s ui.token ] || random | put ui.token "$paceline" 0400

# What users.sh hands to Kafka's own tool: on a command line everyone would see the passwords.
for user in paceline jobs; do
  [ "$user.scram" -nt "$user.password" ] ||
    printf 'SCRAM-SHA-512=iterations=8192,password=%s\n' "$(cat "$user.password")" | put "$user.scram" "$kafka" 0400
done

# What each may read: a service that is broken into gives away its own secrets, and none of the others'.
give() { # service, user; the names of its files
  local service=$1 user=$2 name
  shift 2
  for name in "$@"; do
    cmp -s "$name" "${out[$service]}/$name" || put "${out[$service]}/$name" "$user" 0400 <"$name"
  done
}
give kafka "$kafka" ca.pem kafka.pem jobs.password paceline.scram jobs.scram
give services "$paceline" ca.pem paceline.password
give jobs "$paceline" ca.pem jobs.password
give grafana "$grafana" grafana.password
for service in forecaster control ui; do give "$service" "$paceline" "$service.token"; done
