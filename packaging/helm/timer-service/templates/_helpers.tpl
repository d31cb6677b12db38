{{- define "timer.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* The name is also the job of the alert rules, through the ServiceMonitor. */ -}}
{{- define "timer.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "timer.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "timer.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "timer.image" -}}
{{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end -}}

{{- /* A variable from a Secret: a list of its name, the reference, and the root. */ -}}
{{- define "timer.fromSecret" -}}
{{- $ref := index . 1 -}}
- name: {{ index . 0 }}
  valueFrom:
    secretKeyRef: {name: {{ $ref.name | default (index . 2).Values.secretName | quote }}, key: {{ $ref.key | quote }}}
{{- end -}}

{{- define "timer.scheme" -}}{{ ternary "https" "http" (ne .Values.http.tlsSecret "") }}{{- end -}}

{{- define "timer.env" -}}
{{- $b := .Values.broker -}}
- {name: TIMER_HTTP_ADDR, value: {{ printf ":%d" (int .Values.http.port) | quote }}}
- {name: TIMER_DRAIN_TIMEOUT, value: {{ printf "%ds" (int .Values.drainTimeoutSeconds) | quote }}}
- {name: TIMER_BROKER, value: {{ $b.kind | quote }}}
{{ include "timer.fromSecret" (list "TIMER_HTTP_TOKEN" .Values.http.tokenSecret .) }}
{{- if eq .Values.mode "postgres" }}
{{ include "timer.fromSecret" (list "TIMER_DB_URL" .Values.postgres.urlSecret .) }}
{{- else }}
- {name: TIMER_DB_PATH, value: /data/timer-service/timers.db}
{{- end }}
{{- if $b.embedded }}
- {name: TIMER_NATS_LISTEN, value: "0.0.0.0:4222"}
{{- else }}
{{ include "timer.fromSecret" (list "TIMER_BROKER_URL" $b.urlSecret .) }}
{{- end }}
{{- if or $b.embedded $b.tokenSecret.name }}
{{ include "timer.fromSecret" (list "TIMER_NATS_TOKEN" $b.tokenSecret .) }}
{{- end }}
{{- with $b.credentialsSecret }}{{ if .name }}
{{ include "timer.fromSecret" (list "TIMER_BROKER_USERNAME" (dict "name" .name "key" .usernameKey) $) }}
{{ include "timer.fromSecret" (list "TIMER_BROKER_PASSWORD" (dict "name" .name "key" .passwordKey) $) }}
{{- end }}{{ end }}
{{- with $b.tlsSecret }}{{ if .name }}
{{- if .ca }}
- {name: TIMER_BROKER_TLS_CA, value: {{ printf "/etc/timer-service/broker/%s" .ca | quote }}}
{{- end }}
{{- if .cert }}
- {name: TIMER_BROKER_TLS_CERT, value: {{ printf "/etc/timer-service/broker/%s" .cert | quote }}}
{{- end }}
{{- if .key }}
- {name: TIMER_BROKER_TLS_KEY, value: {{ printf "/etc/timer-service/broker/%s" .key | quote }}}
{{- end }}
{{- end }}{{ end }}
{{- with $b.credsSecret }}{{ if .name }}
- {name: TIMER_NATS_CREDENTIALS, value: {{ printf "/etc/timer-service/nats-creds/%s" .key | quote }}}
{{- end }}{{ end }}
{{- with $b.nkeySecret }}{{ if .name }}
- {name: TIMER_NATS_NKEY, value: {{ printf "/etc/timer-service/nats-nkey/%s" .key | quote }}}
{{- end }}{{ end }}
{{- with .Values.http.tenantTokensSecret }}{{ if .name }}
- {name: TIMER_HTTP_TENANT_TOKENS_FILE, value: {{ printf "/etc/timer-service/tenant-tokens/%s" .key | quote }}}
{{- end }}{{ end }}
{{- if .Values.http.tlsSecret }}
- {name: TIMER_HTTP_TLS_CERT, value: /etc/timer-service/http-tls/tls.crt}
- {name: TIMER_HTTP_TLS_KEY, value: /etc/timer-service/http-tls/tls.key}
{{- end }}
{{- if .Values.quotas }}
- {name: TIMER_QUOTAS_FILE, value: /etc/timer-service/quotas/quotas.yaml}
{{- end }}
{{- range $key, $value := .Values.settings }}
- {name: {{ printf "TIMER_%s" (upper $key) }}, value: {{ (kindIs "float64" $value) | ternary (int64 $value) $value | quote }}}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* Folders of Secrets that are mounted: name of the volume to that of the Secret. */ -}}
{{- define "timer.secretVolumes" -}}
{{- $all := dict
  "broker" .Values.broker.tlsSecret.name
  "nats-creds" .Values.broker.credsSecret.name
  "nats-nkey" .Values.broker.nkeySecret.name
  "tenant-tokens" .Values.http.tenantTokensSecret.name
  "http-tls" .Values.http.tlsSecret -}}
{{- if eq .Values.mode "postgres" }}{{ $_ := set $all "postgres" .Values.postgres.tlsSecret }}{{ end -}}
{{- range $name, $secret := $all }}{{ if not $secret }}{{ $_ := unset $all $name }}{{ end }}{{ end -}}
{{- toYaml $all -}}
{{- end -}}

{{- /* Before Kubernetes kills the pod: preStop, the drain, and what the service adds to it. */ -}}
{{- define "timer.gracePeriod" -}}
{{ add .Values.preStopSeconds .Values.drainTimeoutSeconds 10 }}
{{- end -}}

{{- define "timer.pod" -}}
{{- $secrets := include "timer.secretVolumes" . | fromYaml -}}
metadata:
  labels:
    {{- include "timer.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  {{- with .Values.podAnnotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false # else a Service named timer sets TIMER_… variables
  terminationGracePeriodSeconds: {{ include "timer.gracePeriod" . }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: timer-service
      image: {{ include "timer.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      env: {{- include "timer.env" . | nindent 8 }}
      ports:
        - {name: http, containerPort: {{ .Values.http.port }}}
        {{- if .Values.broker.embedded }}
        - {name: nats, containerPort: 4222}
        {{- end }}
      startupProbe: {httpGet: {path: {{ include "timer.path" (list . "/livez") }}, port: http, scheme: {{ include "timer.scheme" . | upper }}}, periodSeconds: 5, timeoutSeconds: 3, failureThreshold: {{ ceil (divf .Values.startupSeconds 5) }}}
      livenessProbe: {httpGet: {path: {{ include "timer.path" (list . "/livez") }}, port: http, scheme: {{ include "timer.scheme" . | upper }}}, periodSeconds: 10, timeoutSeconds: 3, failureThreshold: 6}
      readinessProbe: {httpGet: {path: {{ include "timer.path" (list . "/readyz") }}, port: http, scheme: {{ include "timer.scheme" . | upper }}}, periodSeconds: 5, timeoutSeconds: 3, failureThreshold: 2}
      {{- if .Values.preStopSeconds }}
      lifecycle: {preStop: {sleep: {seconds: {{ .Values.preStopSeconds }}}}}
      {{- end }}
      resources: {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        {{- if eq .Values.mode "sqlite" }}
        - {name: data, mountPath: /data}
        {{- end }}
        {{- range $name, $_ := $secrets }}
        - {name: {{ $name }}, mountPath: /etc/timer-service/{{ $name }}, readOnly: true}
        {{- end }}
        {{- if .Values.quotas }}
        - {name: quotas, mountPath: /etc/timer-service/quotas, readOnly: true}
        {{- end }}
        {{- with .Values.extraVolumeMounts }}{{ toYaml . | nindent 8 }}{{ end }}
  volumes:
    - name: tmp # for SQLite's sorts: the image has no other folder to write to
      emptyDir: {}
    {{- range $name, $secret := $secrets }}
    - name: {{ $name }}
      secret: {secretName: {{ $secret | quote }}, defaultMode: 0440}
    {{- end }}
    {{- if .Values.quotas }}
    - name: quotas
      configMap: {name: {{ include "timer.fullname" . }}}
    {{- end }}
    {{- with .Values.extraVolumes }}{{ toYaml . | nindent 4 }}{{ end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- if .Values.topologySpreadConstraints }}
  topologySpreadConstraints: {{- toYaml .Values.topologySpreadConstraints | nindent 4 }}
  {{- else if eq .Values.mode "postgres" }}
  topologySpreadConstraints:
    {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - topologyKey: {{ . }}
      maxSkew: 1
      whenUnsatisfiable: ScheduleAnyway
      matchLabelKeys: [pod-template-hash]
      labelSelector:
        matchLabels: {{- include "timer.selector" $ | nindent 10 }}
    {{- end }}
  {{- end }}
{{- end -}}

{{- /* A path of the HTTP server, behind http_prefix. */ -}}
{{- define "timer.path" -}}
{{ get (index . 0).Values.settings "http_prefix" }}{{ index . 1 }}
{{- end -}}
