{{/*
A pod of one container. Rule of this file: the rights are the least of all, and what needs more says so where it does.

Arguments: root, name (the part), image, args, port, and where they differ from none: env, volumes, mounts (YAML),
ready, alive (paths), start (seconds that it may take to answer), patience (of liveness), grace, token, tmp, pod (YAML
of the pod's spec), user.
*/}}

{{- define "paceline.podSecurity" -}}
{{- $user := .user | default 10001 | int -}}
runAsNonRoot: {{ ne $user 0 }}
runAsUser: {{ $user }}
runAsGroup: {{ $user }}
fsGroup: {{ $user }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "paceline.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "paceline.pod" -}}
{{- $values := eq .name "topics" | ternary .root.Values.kafka.topics (index .root.Values .name) -}}
metadata:
  labels:
    {{- include "paceline.podLabels" . | nindent 4 }}
  {{- with .root.Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "paceline.fullname" .root }}-{{ .name }}
  automountServiceAccountToken: {{ .token | default false }}
  # What Kubernetes tells of Services by variables could be taken for settings.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .grace | default 30 }}
  {{- with include "paceline.placing" . | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with .pod }}
  {{- . | nindent 2 }}
  {{- end }}
  securityContext:
    {{- include "paceline.podSecurity" . | nindent 4 }}
  containers:
    - name: {{ .name }}
      image: {{ include "paceline.image" . | quote }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      args:
        {{- toYaml .args | nindent 8 }}
      env:
        {{- include "paceline.env" . | nindent 8 }}
      {{- if .port }}
      ports:
        - {name: web, containerPort: {{ .port }}, protocol: TCP}
      {{- include "paceline.probes" . | nindent 6 }}
      {{- end }}
      resources:
        {{- toYaml $values.resources | nindent 8 }}
      securityContext:
        {{- include "paceline.containerSecurity" . | nindent 8 }}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        {{- if (include "paceline.kafka" . | fromYaml).files }}
        - {name: kafka, mountPath: /run/paceline/kafka, readOnly: true}
        {{- end }}
        {{- with .mounts }}
        {{- . | nindent 8 }}
        {{- end }}
  volumes:
    - {name: tmp, emptyDir: {sizeLimit: {{ .tmp | default "64Mi" }}}}
    {{- with include "paceline.kafkaVolume" . }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- with .volumes }}
    {{- . | nindent 4 }}
    {{- end }}
{{- end -}}

{{- define "paceline.env" -}}
{{- include "paceline.kafkaEnv" . }}
- {name: PACELINE_CLUSTER, value: {{ .root.Values.clusterName | quote }}}
{{- range $name, $value := .root.Values.settings }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- with .env }}
{{ . }}
{{- end }}
{{- end -}}

{{- define "paceline.placing" -}}
{{- $values := index .root.Values .name | default dict -}}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
nodeSelector:
  {{- merge (dict) ($values.nodeSelector | default dict) (dict "kubernetes.io/os" "linux") | toYaml | nindent 2 }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Kubelets ask by the pod's address, which a service on all addresses answers to. */}}
{{- define "paceline.probes" -}}
{{- $alive := .alive | default "/healthz" -}}
startupProbe:
  httpGet: {path: {{ $alive }}, port: web}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: {{ div (.start | default 120) 5 }}
readinessProbe:
  httpGet: {path: {{ .ready | default "/readyz" }}, port: web}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 2
livenessProbe:
  httpGet: {path: {{ $alive }}, port: web}
  periodSeconds: 20
  timeoutSeconds: 5
  failureThreshold: {{ .patience | default 3 }}
{{- end -}}

{{/* Two of a kind on two nodes, where there are two. */}}
{{- define "paceline.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "paceline.selector" . | nindent 8 }}
{{- end -}}

{{/* A token out of tokens.secret as a file, for one who asks or is asked: name -> its key. */}}
{{- define "paceline.tokenVolume" -}}
{{- $tokens := .root.Values.tokens -}}
{{- $held := list -}}
{{- range .tokens }}{{ if index $tokens.keys . }}{{ $held = append $held . }}{{ end }}{{ end -}}
{{- if and $tokens.secret $held -}}
- name: tokens
  secret:
    secretName: {{ $tokens.secret | quote }}
    defaultMode: 0440
    items:
      {{- range $held }}
      - {key: {{ index $tokens.keys . | quote }}, path: {{ . }}.token}
      {{- end }}
{{- end -}}
{{- end -}}

{{- define "paceline.tokenEnv" -}}
{{- $tokens := .root.Values.tokens -}}
{{- $env := list -}}
{{- if $tokens.secret -}}
{{- range .tokens }}
{{- if index $tokens.keys . }}{{ $env = append $env (dict "name" (printf "PACELINE_%s_TOKEN_FILE" (upper .)) "value" (printf "/run/paceline/tokens/%s.token" .)) }}{{ end }}
{{- end -}}
{{- end -}}
{{- if $env }}{{ toYaml $env }}{{ end -}}
{{- end -}}

{{- define "paceline.tokenMount" -}}
{{- if include "paceline.tokenVolume" . -}}
- {name: tokens, mountPath: /run/paceline/tokens, readOnly: true}
{{- end -}}
{{- end -}}

{{/* A Service of one port. */}}
{{- define "paceline.service" -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "paceline.metadata" . | nindent 2 }}
spec:
  type: ClusterIP
  {{- if .sticky }}
  sessionAffinity: ClientIP
  {{- end }}
  selector:
    {{- include "paceline.selector" . | nindent 4 }}
  ports:
    - {name: web, port: {{ .port }}, targetPort: web, protocol: TCP}
{{- end -}}
