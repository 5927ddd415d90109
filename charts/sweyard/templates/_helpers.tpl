{{- define "sweyard.selectorLabels" -}}
app.kubernetes.io/name: sweyard
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "sweyard.labels" -}}
app.kubernetes.io/name: sweyard
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* sweyard.image (list $ "operator"): registry/repository:tag of a component. */}}
{{- define "sweyard.image" -}}
{{- $root := index . 0 -}}
{{- $images := $root.Values.images -}}
{{- $own := index $images (index . 1) -}}
{{- $registry := $own.registry | default $images.registry -}}
{{- $tag := $own.tag | default $images.tag | default $root.Chart.AppVersion -}}
{{- if $registry }}{{ $registry }}/{{ end }}{{ $own.repository }}:{{ $tag }}{{ with $own.digest }}@{{ . }}{{ end }}
{{- end }}

{{/* The operator's rights where its objects live. Each child of a run, pool or cache, and nothing else. */}}
{{- define "sweyard.operatorRules" -}}
- apiGroups: [sweyard.dev]
  resources: [trainingruns]
  verbs: [get, list, watch, delete]
- apiGroups: [sweyard.dev]
  resources: [rolloutpools, imagecaches]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [sweyard.dev]
  resources: [trainingruns/status, rolloutpools/status, imagecaches/status]
  verbs: [get, patch, update]
- apiGroups: [""]
  resources: [pods, configmaps, services, serviceaccounts, persistentvolumeclaims]
  verbs: [get, list, watch, create, patch, update, delete]
- apiGroups: [""]
  resources: [events]
  verbs: [get, list, create, patch]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list, watch, delete]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch, update, delete]
- apiGroups: [apps]
  resources: [deployments, statefulsets, daemonsets]
  verbs: [get, list, watch, create, patch, update, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, update, delete]
# A run in a queue is one Workload of Kueue, where there is Kueue.
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads]
  verbs: [get, list, create, patch, delete]
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads/status]
  verbs: [get, patch]
# A run with trainer.podGroup, where the cluster serves the kind.
- apiGroups: [scheduling.k8s.io]
  resources: [podgroups]
  verbs: [get, create]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, update, delete]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [rolebindings]
  verbs: [get, list, watch, create, patch, update, delete]
# It hands out these three roles and cannot hand out more.
- apiGroups: [rbac.authorization.k8s.io]
  resources: [clusterroles]
  resourceNames: [sweyard-trainer, sweyard-holder, sweyard-cache-agent]
  verbs: [bind]
{{- end }}
