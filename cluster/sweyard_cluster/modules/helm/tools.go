//go:build tools

// Package tools names the command that this module pins and builds.
package tools

import _ "helm.sh/helm/v4/cmd/helm"
