// Command pause holds namespaces open and reaps the children they leave behind. It is the first process of
// a node and of every pod.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

var version = "1"

func main() {
	if len(os.Args) > 1 && os.Args[1] == "--version" {
		fmt.Println("pause", version)
		return
	}
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGINT, syscall.SIGTERM)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if err == syscall.EINTR {
				continue
			}
			if pid <= 0 {
				break
			}
		}
	}
}
