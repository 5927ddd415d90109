// Command probe is what test pods run: "serve ADDRESS" answers HTTP until it is ended, "get URL" fetches once,
// "lookup NAME" resolves, "write FILE TEXT" and "read FILE" touch files.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	log.SetFlags(0)
	switch arguments := os.Args[2:]; os.Args[1] {
	case "serve":
		http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
			host, _ := os.Hostname()
			fmt.Fprint(w, host)
		})
		check(http.ListenAndServe(arguments[0], nil))
	case "get":
		client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		answer, err := client.Get(arguments[0])
		check(err)
		_, err = io.Copy(os.Stdout, answer.Body)
		check(err)
	case "lookup":
		addresses, err := net.LookupHost(arguments[0])
		check(err)
		fmt.Println(addresses[0])
	case "write":
		check(os.WriteFile(arguments[0], []byte(arguments[1]), 0o644))
	case "read":
		content, err := os.ReadFile(arguments[0])
		check(err)
		os.Stdout.Write(content)
	default:
		log.Fatalf("unknown command %q", os.Args[1])
	}
}
