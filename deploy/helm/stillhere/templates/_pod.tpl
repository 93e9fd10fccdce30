{{- /* The template of a role's or a job's pods: (dict "root" $ "role" "ingest" "is" what the chart knows "of" its values). */ -}}
{{- define "stillhere.pod" -}}
{{- $v := .root.Values -}}
{{- $name := include "stillhere.fullname" .root -}}
{{- $of := mergeOverwrite (deepCopy $v.defaults) .of -}}
{{- $job := eq .is.kind "Job" -}}
{{- $own := mergeOverwrite (fromYaml (include "stillhere.own" .)) (default dict .of.settings) -}}
{{- $mounts := include "stillhere.mounts" . | fromYamlArray -}}
metadata:
  labels:
    {{- include "stillhere.selector" . | nindent 4 }}
    {{- with $of.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    # Changed settings start new pods.
    checksum/settings: {{ include (print .root.Template.BasePath "/settings.yaml") .root | sha256sum | trunc 16 }}
    {{- with $of.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  {{- if $job }}
  restartPolicy: OnFailure
  {{- end }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ $of.terminationGracePeriodSeconds }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    {{- if include "stillhere.signs" . }}
    fsGroup: 65532 # reads frame-keys, which others must not
    {{- end }}
    seccompProfile: {type: RuntimeDefault}
  {{- with $v.imagePullSecrets }}
  imagePullSecrets: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with $of.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $of.nodeSelector }}
  nodeSelector: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with $of.tolerations }}
  tolerations: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with $of.affinity }}
  affinity: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- if not $job }}
  {{- with $of.spread }}
  topologySpreadConstraints:
    {{- range . }}
    - maxSkew: 1
      topologyKey: {{ .topologyKey }}
      whenUnsatisfiable: {{ .whenUnsatisfiable }}
      labelSelector:
        matchLabels:
          {{- include "stillhere.selector" $ | nindent 10 }}
      {{- if eq $.is.kind "Deployment" }}
      matchLabelKeys: [pod-template-hash]
      {{- end }}
    {{- end }}
  {{- end }}
  {{- end }}
  containers:
    - name: stillhere
      image: {{ include "stillhere.image" (dict "root" .root "tag" .of.tag) }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      args: {{ default (list .role) .is.args | toJson }}
      envFrom:
        - configMapRef: {name: {{ $name }}}
      env:
        {{- if not .is.tool }}
        # Stable across restarts, and unique within the role.
        - name: STILLHERE_INSTANCE
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        {{- end }}
        {{- if .is.postgres }}
        - name: STILLHERE_POSTGRES
          valueFrom: {secretKeyRef: {name: {{ include "stillhere.secret" .root }}, key: {{ $v.secret.keys.postgres }}}}
        {{- end }}
        {{- range $key, $value := include "stillhere.settings" $own | fromYaml }}
        - {name: {{ $key }}, value: {{ $value | quote }}}
        {{- end }}
        - {name: GOMEMLIMIT, value: {{ include "stillhere.heap" $of.resources.limits.memory }}}
        {{- with $of.extraEnv }}{{ toYaml . | nindent 8 }}{{ end }}
      {{- if not $job }}
      ports:
        {{- if .is.http }}
        - {name: http, containerPort: 8080}
        {{- end }}
        - {name: admin, containerPort: 9090}
      startupProbe:
        httpGet: {path: /healthz, port: admin}
        periodSeconds: 2
        failureThreshold: 60
      # Liveness does not ask Kafka, Redis or Postgres: their outage must not restart the process.
      livenessProbe:
        httpGet: {path: /healthz, port: admin}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: admin}
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 3
      {{- end }}
      {{- if .is.http }}
      # Until no load balancer sends requests here any more.
      lifecycle: {preStop: {sleep: {seconds: 5}}}
      {{- end }}
      resources: {{ toYaml $of.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      {{- with $mounts }}
      volumeMounts:
        {{- range . }}
        - {name: {{ .name }}, mountPath: /etc/stillhere/{{ .name }}, readOnly: true}
        {{- end }}
  volumes:
    {{- range . }}
    - name: {{ .name }}
      secret: {{ toYaml .secret | nindent 8 }}
    {{- end }}
  {{- end }}
{{- end }}

{{- /* The Secrets that the pods of a role mount as files below /etc/stillhere. */ -}}
{{- define "stillhere.mounts" -}}
{{- $v := .root.Values -}}
{{- $keys := $v.secret.keys -}}
{{- $items := list -}}
{{- if and .is.http (eq $v.auth.type "secret") }}{{ $items = append $items (dict "key" $keys.auth "path" "auth-secret") }}{{ end }}
{{- if and $v.kafka.sasl.mechanism (not .is.nokafka) (not $v.strimzi.users.enabled) }}{{ $items = append $items (dict "key" $keys.kafkaPassword "path" "kafka-password") }}{{ end }}
{{- if and .is.redis $keys.redisPassword }}{{ $items = append $items (dict "key" $keys.redisPassword "path" "redis-password") }}{{ end }}
{{- if and (eq $v.ids "text") (not .is.nokafka) }}{{ $items = append $items (dict "key" $keys.identityKey "path" "identity-key") }}{{ end }}
{{- if include "stillhere.signs" . }}{{ $items = append $items (dict "key" $keys.frameKeys "path" "frame-keys" "mode" 288) }}{{ end }}
{{- if and (eq .role "canary") $keys.canaryToken }}{{ $items = append $items (dict "key" $keys.canaryToken "path" "canary-token") }}{{ end }}
{{- with $items }}
- {name: secret, secret: {secretName: {{ include "stillhere.secret" $.root }}, items: {{ toJson . }}}}
{{- end }}
{{- if not .is.nokafka }}
{{- with $v.kafka.tls }}
{{- if and .enabled .caSecret.name }}
- {name: kafka-ca, secret: {secretName: {{ .caSecret.name }}, items: [{key: {{ .caSecret.key }}, path: ca.crt}]}}
{{- end }}
{{- if $v.strimzi.users.enabled }}
{{- $user := printf "%s-%s" (include "stillhere.fullname" $.root) $.role }}
{{- if eq $v.strimzi.users.authentication "tls" }}
- {name: kafka, secret: {secretName: {{ $user }}, items: [{key: user.crt, path: user.crt}, {key: user.key, path: user.key}]}}
{{- else }}
- {name: kafka, secret: {secretName: {{ $user }}, items: [{key: password, path: password}]}}
{{- end }}
{{- else if and .enabled .clientSecret.name }}
- {name: kafka, secret: {secretName: {{ .clientSecret.name }}, items: [{key: {{ .clientSecret.cert }}, path: user.crt}, {key: {{ .clientSecret.key }}, path: user.key}]}}
{{- end }}
{{- end }}
{{- end }}
{{- if .is.postgres }}
{{- with $v.postgres.caSecret }}
{{- if .name }}
- {name: postgres, secret: {secretName: {{ .name }}, items: [{key: {{ .key }}, path: ca.crt}]}}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
