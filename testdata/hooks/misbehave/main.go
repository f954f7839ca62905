// Program misbehave is a hook that does, on demand, all that a hook must not do. The program also
// does a few things that a hook may, in a form that a test can see. Tests of programs that start
// hooks use it.
//
// The variable MISBEHAVE names its fault before there is a configuration. The program's file name
// up to the first dot names it as well, as a host gives its hooks an environment of its own:
//
//	print-early     prints a line before the handshake
//	wrong-version   speaks a protocol version that nobody knows
//	exit-at-start   exits with status 3 and a line on standard error
//	slow-start      waits until it is killed
//	nonsense        answers every event with bytes that are no outcome
//	misspelt        answers every event with a reject whose key is misspelt
//	no-events       handles nothing
//	no-lifeline     does not notice that its host is gone
//
// Its configuration names the fault at an event, see config.go.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
)

func main() {
	switch start() {
	case "print-early":
		fmt.Println("hello from misbehave")
	case "wrong-version":
		hostapi.Handshake.ProtocolVersion = 99
	case "exit-at-start":
		fmt.Fprintln(os.Stderr, "misbehave: exits at its start")
		os.Exit(3)
	case "slow-start":
		select {}
	case "nonsense", "misspelt":
		serveNonsense()
		return
	case "no-events":
		hostapi.Serve(func(*hostapi.Setup) (any, error) { return struct{}{}, nil })
		return
	case "no-lifeline":
		os.Unsetenv(hostapi.LifelineEnv)
	}
	hostapi.Serve(newHook)
}

func start() string {
	if mode, ok := os.LookupEnv("MISBEHAVE"); ok {
		return mode
	}
	name, _, _ := strings.Cut(filepath.Base(os.Args[0]), ".")
	return name
}
