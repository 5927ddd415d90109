//go:build tools

// Package tools names the commands that this module pins and builds.
package tools

import (
	_ "github.com/coredns/coredns"
)
