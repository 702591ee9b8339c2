{{- define "oncelog.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "oncelog.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "oncelog.labels" -}}
{{ include "oncelog.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "oncelog.host" -}}
{{ .Values.clients.host | default (printf "%s.%s.svc" (include "oncelog.name" .) .Release.Namespace) }}
{{- end }}

{{- /* server.properties; what `config` says wins, so nothing stands there twice. */ -}}
{{- define "oncelog.properties" -}}
{{- if and (not .Values.tls.secretName) (not .Values.insecure) }}
{{- fail "tls.secretName: name a secret with the key broker.pem (private key and certificate chain), or say insecure=true for a broker that lets everybody in" }}
{{- end }}
{{- if and .Values.tls.secretName .Values.insecure }}
{{- fail "insecure=true lets everybody in without TLS, also where tls.secretName names a certificate: say one of them" }}
{{- end }}
{{- $port := int .Values.clients.port }}
{{- if or (has 9092 (list $port (int .Values.metrics.port))) (eq $port (int .Values.metrics.port)) }}
{{- fail "clients.port and metrics.port: two different ports, neither of them 9092, which is the pod's own" }}
{{- end }}
{{- $own := dict
  "node.id" "1"
  "log.dirs" "/var/lib/oncelog/data"
  "listeners" (printf "LOCAL://127.0.0.1:9092,CLIENTS://0.0.0.0:%d" $port)
  "advertised.listeners" (printf "LOCAL://127.0.0.1:9092,CLIENTS://%s:%d" (include "oncelog.host" .) $port)
  "metrics.listen" (printf "0.0.0.0:%d" (int .Values.metrics.port)) }}
{{- if .Values.insecure }}
{{- $own = merge $own (dict "listener.security.protocol.map" "LOCAL:PLAINTEXT,CLIENTS:PLAINTEXT" "oncelog.insecure.listeners" "true") }}
{{- else }}
{{- $own = merge $own (dict
  "listener.security.protocol.map" "LOCAL:PLAINTEXT,CLIENTS:SASL_SSL"
  "ssl.keystore.location" "/etc/oncelog/tls/broker.pem"
  "listener.name.clients.sasl.enabled.mechanisms" "SCRAM-SHA-512"
  "authorizer.class.name" "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
  "super.users" "User:ANONYMOUS;User:admin") }}
{{- end }}
{{- range $key, $value := .Values.config }}
{{- if kindIs "float64" $value }}
{{- if gt (maxf $value (mulf $value -1)) 9007199254740991.0 }}
{{- fail (printf "config.%s: a number as large as this is not kept exactly: write it in quotes" $key) }}
{{- end }}
{{- if eq $value (floor $value) }}{{ $value = int64 $value }}{{ end }}
{{- end }}
{{- $own = set $own $key (toString $value) }}
{{- end }}
{{- range $key := keys $own | sortAlpha }}
{{ $key }}={{ get $own $key }}
{{- end }}
{{- end }}
