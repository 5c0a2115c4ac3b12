{{/*
Names and labels. Rule of this file: a name fits its longest suffix and is a name of a Service; whatever had to be
changed for that gets a hash of what it was, so that two releases never share one.
*/}}

{{- define "paceline.name" -}}
{{- default .Chart.Name .Values.nameOverride -}}
{{- end -}}

{{/* At most 40 characters: StatefulSets, Jobs and their pods add theirs. */}}
{{- define "paceline.fullname" -}}
{{- $raw := .Values.fullnameOverride -}}
{{- if not $raw -}}
{{- $name := include "paceline.name" . -}}
{{- $raw = ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- end -}}
{{- $clean := $raw | lower | replace "." "-" -}}
{{- if not (regexMatch "^[a-z]" $clean) -}}{{- $clean = printf "r-%s" $clean -}}{{- end -}}
{{- if or (ne $clean $raw) (gt (len $clean) 40) -}}
{{- printf "%s-%s" ($clean | trunc 31 | trimSuffix "-") ($raw | sha256sum | trunc 8) -}}
{{- else -}}
{{- $clean -}}
{{- end -}}
{{- end -}}

{{/* Who is meant: never anything that an upgrade or a value changes, for it cannot be changed. */}}
{{- define "paceline.selector" -}}
app.kubernetes.io/name: paceline-{{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
{{- end -}}

{{/* Of pods: nothing that a new version changes, or each would restart Kafka. */}}
{{- define "paceline.podLabels" -}}
{{ include "paceline.selector" . }}
app.kubernetes.io/component: {{ .name }}
app.kubernetes.io/part-of: paceline
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "paceline.labels" -}}
{{ include "paceline.podLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name (.root.Chart.Version | replace "+" "_") }}
{{- end -}}

{{- define "paceline.metadata" -}}
name: {{ include "paceline.fullname" .root }}-{{ .suffix | default .name }}
namespace: {{ .root.Release.Namespace | quote }}
labels:
  {{- include "paceline.labels" . | nindent 2 }}
{{- end -}}

{{/* A service's image: by digest where one is named. */}}
{{- define "paceline.image" -}}
{{- $image := .root.Values.image -}}
{{- $place := printf "%s/%s" $image.repository .image -}}
{{- with $image.registry }}{{ $place = printf "%s/%s" . $place }}{{ end -}}
{{- $digest := index $image.digests .image -}}
{{- if $digest -}}{{ $place }}@{{ $digest }}{{- else -}}{{ $place }}:{{ default .root.Chart.AppVersion $image.tag }}{{- end -}}
{{- end -}}

{{/* By which names its Service is asked. */}}
{{- define "paceline.serviceNames" -}}
{{- $name := printf "%s-%s" (include "paceline.fullname" .root) .name -}}
{{- $space := .root.Release.Namespace -}}
{{ $name }},{{ $name }}.{{ $space }},{{ $name }}.{{ $space }}.svc,{{ $name }}.{{ $space }}.svc.cluster.local
{{- end -}}
