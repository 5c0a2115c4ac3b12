{{/*
How a service reaches Kafka. Rule of this file: whatever is secret comes out of a Secret that exists, as a file.
*/}}

{{- define "paceline.strimziCluster" -}}
{{- default (include "paceline.fullname" .) .Values.kafka.strimzi.cluster -}}
{{- end -}}

{{/* The name of a service's KafkaUser: by `paceline rights`, the page's is not called ui. */}}
{{- define "paceline.strimziUser" -}}
{{ include "paceline.fullname" .root }}-{{ eq .name "ui" | ternary "page" .name }}
{{- end -}}

{{/* Where Kafka is: by its mode alone, whoever logs in. */}}
{{- define "paceline.brokers" -}}
{{- if eq .Values.kafka.mode "bundled" -}}
{{ include "paceline.fullname" . }}-kafka.{{ .Release.Namespace }}.svc:9092
{{- else if eq .Values.kafka.mode "strimzi" -}}
{{ include "paceline.strimziCluster" . }}-kafka-bootstrap.{{ .Release.Namespace }}.svc:9093
{{- else -}}
{{- if not .Values.kafka.external.brokers }}{{ fail "kafka.external.brokers is empty, and kafka.mode is external; allowed: host:port[,host:port]" }}{{ end -}}
{{ .Values.kafka.external.brokers }}
{{- end -}}
{{- end -}}

{{/* As YAML: brokers, protocol, mechanism, username, oauth, and the files that its volume holds. */}}
{{- define "paceline.kafka" -}}
brokers: {{ include "paceline.brokers" .root | quote }}
{{- if eq .root.Values.kafka.mode "bundled" }}
protocol: PLAINTEXT
{{- else if eq .root.Values.kafka.mode "strimzi" }}
protocol: SASL_SSL
mechanism: SCRAM-SHA-512
username: {{ include "paceline.strimziUser" . }}
files:
  - {secret: {{ include "paceline.strimziCluster" .root }}-cluster-ca-cert, key: ca.crt, path: ca.pem}
  - {secret: {{ include "paceline.strimziUser" . }}, key: password, path: password}
{{- else }}
{{ include "paceline.externalKafka" . }}
{{- end }}
{{- end -}}

{{- define "paceline.externalKafka" -}}
{{- $kafka := .root.Values.kafka.external -}}
{{- $own := index .root.Values.kafka.users .name | default dict -}}
{{- $secret := default $kafka.secret $own.secret -}}
{{- $username := default $kafka.username $own.username -}}
{{- $clientId := default $kafka.oauth.clientId $own.clientId -}}
{{- $tls := has $kafka.protocol (list "SSL" "SASL_SSL") -}}
{{- $login := hasPrefix "SASL_" $kafka.protocol -}}
{{- $oauth := and $login (eq $kafka.mechanism "OAUTHBEARER") -}}
{{- if and $login (not $secret) }}{{ fail (printf "kafka.external.secret is empty, and %s logs in with what it holds; allowed: the name of an existing Secret, or one in kafka.users.%s" $kafka.protocol .name) }}{{ end -}}
{{- if and $login (not $oauth) (not $username) }}{{ fail (printf "kafka.external.username is empty, and %s needs it; allowed: a user, or one in kafka.users.%s" $kafka.mechanism .name) }}{{ end -}}
{{- if and $oauth (or (not $kafka.oauth.tokenUrl) (not $clientId)) }}{{ fail "kafka.external.oauth.tokenUrl and clientId are needed for OAUTHBEARER; allowed: an https address, and a client's id" }}{{ end -}}
{{- if and $tls $kafka.keys.key (not $kafka.keys.certificate) }}{{ fail "kafka.external.keys.key is set without keys.certificate; allowed: both, or none" }}{{ end -}}
{{- if and $tls (or $kafka.keys.ca $kafka.keys.certificate) (not $secret) }}{{ fail "kafka.external.secret is empty, and keys.ca or keys.certificate name files of it; allowed: an existing Secret, or keys.ca: \"\" for the system's authorities" }}{{ end -}}
protocol: {{ $kafka.protocol }}
{{- if $login }}
mechanism: {{ $kafka.mechanism }}
{{- end }}
{{- if $oauth }}
oauth: {tokenUrl: {{ $kafka.oauth.tokenUrl | quote }}, clientId: {{ $clientId | quote }}, scope: {{ $kafka.oauth.scope | quote }}}
{{- else if $login }}
username: {{ $username | quote }}
{{- end }}
files:
{{- if and $tls $kafka.keys.ca }}
  - {secret: {{ $secret | quote }}, key: {{ $kafka.keys.ca | quote }}, path: ca.pem}
{{- end }}
{{- if and $tls $kafka.keys.certificate }}
  - {secret: {{ $secret | quote }}, key: {{ $kafka.keys.certificate | quote }}, path: client.pem}
{{- end }}
{{- if and $tls $kafka.keys.key }}
  - {secret: {{ $secret | quote }}, key: {{ $kafka.keys.key | quote }}, path: client.key}
{{- end }}
{{- if $oauth }}
  - {secret: {{ $secret | quote }}, key: {{ $kafka.keys.oauthClientSecret | quote }}, path: client-secret}
{{- with $kafka.keys.oauthCa }}
  - {secret: {{ $secret | quote }}, key: {{ . | quote }}, path: issuer.pem}
{{- end }}
{{- else if $login }}
  - {secret: {{ $secret | quote }}, key: {{ $kafka.keys.password | quote }}, path: password}
{{- end }}
{{- end -}}

{{- define "paceline.kafkaEnv" -}}
{{- $kafka := include "paceline.kafka" . | fromYaml -}}
{{- $files := list -}}
{{- range $kafka.files }}{{ $files = append $files .path }}{{ end -}}
- {name: PACELINE_BROKERS, value: {{ $kafka.brokers | quote }}}
- {name: PACELINE_SECURITY_PROTOCOL, value: {{ $kafka.protocol }}}
{{- with $kafka.mechanism }}
- {name: PACELINE_SASL_MECHANISM, value: {{ . }}}
{{- end }}
{{- with $kafka.username }}
- {name: PACELINE_SASL_USERNAME, value: {{ . | quote }}}
{{- end }}
{{- with $kafka.oauth }}
- {name: PACELINE_SASL_OAUTH_TOKEN_URL, value: {{ .tokenUrl | quote }}}
- {name: PACELINE_SASL_OAUTH_CLIENT_ID, value: {{ .clientId | quote }}}
{{- with .scope }}
- {name: PACELINE_SASL_OAUTH_SCOPE, value: {{ . | quote }}}
{{- end }}
{{- end }}
{{- range $path, $variable := dict "ca.pem" "SSL_CAFILE" "client.pem" "SSL_CERTFILE" "client.key" "SSL_KEYFILE" "password" "SASL_PASSWORD_FILE" "client-secret" "SASL_OAUTH_CLIENT_SECRET_FILE" "issuer.pem" "SASL_OAUTH_CAFILE" }}
{{- if has $path $files }}
- {name: PACELINE_{{ $variable }}, value: /run/paceline/kafka/{{ $path }}}
{{- end }}
{{- end }}
{{- end -}}

{{/* One volume of all its files; nothing where there is none. */}}
{{- define "paceline.kafkaVolume" -}}
{{- with (include "paceline.kafka" . | fromYaml).files -}}
- name: kafka
  projected:
    defaultMode: 0440
    sources:
      {{- range . }}
      - secret:
          name: {{ .secret | quote }}
          items: [{key: {{ .key | quote }}, path: {{ .path }}}]
      {{- end }}
{{- end -}}
{{- end -}}

{{/* Ports of the brokers, for policies. */}}
{{- define "paceline.kafkaPorts" -}}
{{- $ports := list -}}
{{- range splitList "," (include "paceline.brokers" .root) -}}
{{- $ports = append $ports (. | trim | splitList ":" | last | int) -}}
{{- end -}}
{{- $ports | uniq | toJson -}}
{{- end -}}
