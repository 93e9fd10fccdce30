{{- /* The beginning of all names. */ -}}
{{- define "stillhere.fullname" -}}
{{- $name := .Release.Name -}}
{{- if not (contains "stillhere" $name) }}{{ $name = printf "%s-stillhere" $name }}{{ end -}}
{{- default $name .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- /* What the chart knows of a role: kind, http, and what it connects to besides Kafka. grants: of "stillhere topics acls". */ -}}
{{- define "stillhere.roles" -}}
{{- $graph := or (ne .Values.followers "off") .Values.graphTopic -}}
ingest: {kind: Deployment, http: true, redis: true, postgres: true}
detector: {kind: StatefulSet}
lastseen: {kind: StatefulSet, redis: true, postgres: true}
fanout: {kind: StatefulSet, redis: true, postgres: {{ $graph }}}
api: {kind: Deployment, http: true, redis: true, postgres: true}
{{- if .Values.roles.canary.enabled }}
canary: {kind: Deployment, grants: tools, tool: true}
{{- end }}
{{- end }}

{{- define "stillhere.jobs" -}}
{{- if and .Values.jobs.topics (not .Values.strimzi.topics.enabled) }}
topics: {kind: Job, args: [topics, apply], tool: true}
{{- end }}
{{- if .Values.jobs.migrate }}
migrate: {kind: Job, args: [migrate], tool: true, postgres: true, nokafka: true}
{{- end }}
{{- end }}

{{- /* Labels: (dict "root" $ "role" "ingest"); without a role those of the release. */ -}}
{{- define "stillhere.selector" -}}
app.kubernetes.io/name: stillhere
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .role }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{- define "stillhere.labels" -}}
{{ include "stillhere.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- /* Metadata; the name ends in suffix, or else in the role. */ -}}
{{- define "stillhere.meta" -}}
name: {{ include "stillhere.fullname" .root }}{{ with default .role .suffix }}-{{ . }}{{ end }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "stillhere.labels" . | nindent 2 }}
{{- end }}

{{- /* The image; a tag of a role counts before that of all: (dict "root" $ "tag" ""). */ -}}
{{- define "stillhere.image" -}}
{{- $i := .root.Values.image -}}
{{- if and $i.digest (not .tag) }}{{ $i.repository }}@{{ $i.digest }}{{ else }}{{ $i.repository }}:{{ coalesce .tag $i.tag .root.Chart.AppVersion }}{{ end -}}
{{- end }}

{{- define "stillhere.secret" -}}{{ default (include "stillhere.fullname" .) .Values.secret.name }}{{- end }}

{{- /* Settings by their flags' names as lines of a ConfigMap: STILLHERE_LOG_LEVEL: "debug". */ -}}
{{- define "stillhere.settings" -}}
{{- range $flag, $value := . }}
STILLHERE_{{ $flag | upper | replace "-" "_" }}: {{ if kindIs "string" $value }}{{ $value | quote }}{{ else }}{{ $value | toJson | quote }}{{ end }}
{{- end }}
{{- end }}

{{- /* The settings of all roles, by flag. */ -}}
{{- define "stillhere.common" -}}
{{- $v := .Values -}}
kafka-brokers: {{ join "," $v.kafka.brokers | quote }}
{{- if ne $v.kafka.topicPrefix "presence." }}
topic-prefix: {{ $v.kafka.topicPrefix | quote }}
{{- end }}
{{- if $v.kafka.tls.enabled }}
kafka-tls: "true"
{{- if $v.kafka.tls.caSecret.name }}
kafka-tls-ca: /etc/stillhere/kafka-ca/ca.crt
{{- end }}
{{- if or $v.kafka.tls.clientSecret.name (eq (include "stillhere.users" .) "tls") }}
kafka-tls-cert: /etc/stillhere/kafka/user.crt
kafka-tls-key: /etc/stillhere/kafka/user.key
{{- end }}
{{- end }}
{{- if eq (include "stillhere.users" .) "scram-sha-512" }}
kafka-sasl: SCRAM-SHA-512
kafka-password-file: /etc/stillhere/kafka/password
{{- else if $v.kafka.sasl.mechanism }}
kafka-sasl: {{ $v.kafka.sasl.mechanism }}
kafka-user: {{ $v.kafka.sasl.user | quote }}
kafka-password-file: /etc/stillhere/secret/kafka-password
{{- end }}
redis: {{ join "," $v.redis.addresses | quote }}
{{- if $v.redis.tls }}
redis-tls: "true"
{{- end }}
{{- with $v.redis.user }}
redis-user: {{ . | quote }}
{{- end }}
{{- if $v.secret.keys.redisPassword }}
redis-password-file: /etc/stillhere/secret/redis-password
{{- end }}
# Prometheus and the probes connect here; the NetworkPolicies keep other clients out.
admin: 0.0.0.0:9090
admin-expose: "true"
{{- with $v.policy }}
policy: {{ . }}
{{- end }}
{{- if eq $v.ids "text" }}
ids: text
identity-key-file: /etc/stillhere/secret/identity-key
{{- end }}
{{- end }}

{{- /* How the users that Strimzi makes authenticate: tls, scram-sha-512 or nothing. */ -}}
{{- define "stillhere.users" -}}{{ if .Values.strimzi.users.enabled }}{{ .Values.strimzi.users.authentication }}{{ end }}{{- end }}

{{- /* Whether a role signs heartbeats or checks them. */ -}}
{{- define "stillhere.signs" -}}
{{- if and .root.Values.secret.keys.frameKeys (has .role (list "ingest" "detector")) }}true{{ end -}}
{{- end }}

{{- /* The settings of one role, by flag. */ -}}
{{- define "stillhere.own" -}}
{{- $v := .root.Values -}}
{{- $is := .is -}}
{{- if include "stillhere.signs" . }}
frame-keys: /etc/stillhere/secret/frame-keys
{{- else if eq .role "detector" }}
# Nobody is authenticated: values.schema.json needs the key otherwise.
allow-unauthenticated: "true"
{{- end }}
{{- if $is.http }}
listen: 0.0.0.0:8080
{{- if eq $v.auth.type "secret" }}
auth-secret-file: /etc/stillhere/secret/auth-secret
{{- else if eq $v.auth.type "jwks" }}
auth-jwks: {{ $v.auth.jwks | quote }}
{{- else }}
allow-unauthenticated: "true"
# Without tokens the program answers only requests for names that it knows.
allowed-hosts: {{ include "stillhere.hosts" .root | quote }}
{{- end }}
{{- if ne $v.auth.type "none" }}
{{- with $v.auth.issuer }}
auth-issuer: {{ . | quote }}
{{- end }}
{{- with $v.auth.audience }}
auth-audience: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- if eq .role "fanout" }}
followers: {{ $v.followers | quote }}
graph-topic: {{ $v.graphTopic | quote }}
{{- end }}
{{- if eq .role "canary" }}
url: http://{{ include "stillhere.fullname" .root }}-ingest
read-url: http://{{ include "stillhere.fullname" .root }}-api
{{- if $v.secret.keys.canaryToken }}
token-file: /etc/stillhere/secret/canary-token
{{- end }}
{{- end }}
{{- if eq .role "topics" }}
# It cannot be changed later: users would move.
partitions: {{ $v.kafka.partitions | quote }}
replication: {{ $v.kafka.replication | quote }}
{{- end }}
{{- if and (eq (include "stillhere.users" .root) "scram-sha-512") (not $is.nokafka) }}
kafka-user: {{ include "stillhere.fullname" .root }}-{{ .role }}
{{- end }}
{{- end }}

{{- define "stillhere.hosts" -}}
{{- $name := include "stillhere.fullname" . -}}
{{- $hosts := list -}}
{{- range list "ingest" "api" }}
{{- $hosts = concat $hosts (list (printf "%s-%s" $name .) (printf "%s-%s.%s.svc" $name . $.Release.Namespace)) }}
{{- end }}
{{- with .Values.ingress }}{{ if .enabled }}{{ $hosts = concat $hosts (compact (list .host .ingestHost)) }}{{ end }}{{ end }}
{{- with .Values.gateway }}{{ if .enabled }}{{ $hosts = concat $hosts .hostnames }}{{ end }}{{ end }}
{{- join "," $hosts -}}
{{- end }}

{{- /* Nine tenths of a limit of memory, for Go's heap. */ -}}
{{- define "stillhere.heap" -}}
{{- $mib := trimSuffix "Mi" . -}}
{{- if hasSuffix "Gi" . }}{{ $mib = mul 1024 (trimSuffix "Gi" . | int64) }}{{ end -}}
{{ div (mul 9 (int64 $mib)) 10 }}MiB
{{- end }}
