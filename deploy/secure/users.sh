#!/usr/bin/env bash
# Tells the Kafka at $1 the users whose passwords lie in folder $2 (NAME.scram, by secrets.sh). Run again, it changes nothing
# but passwords that have changed. KAFKA_CONFIGS: Kafka's own tool, where it is not in the image's place.
set -euo pipefail

server=${1:?host:port} folder=${2:?the folder}
read -r -a tool <<<"${KAFKA_CONFIGS:-/opt/kafka/bin/kafka-configs.sh}"
for file in "$folder"/*.scram; do
  user=$(basename "$file" .scram)
  "${tool[@]}" --bootstrap-server "$server" --alter --entity-type users --entity-name "$user" --add-config-file "$file"
done
