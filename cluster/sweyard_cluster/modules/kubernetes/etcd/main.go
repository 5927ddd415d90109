// Command etcd is the etcd server: its main package lives in a module of its own whose replace directives
// keep it from being built outside etcd's repository, so this one calls the same entry point.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
