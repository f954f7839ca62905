package hostapi

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
)

// Description describes a hook's program. The program prints it when called with the single
// argument --describe, as one line of JSON.
type Description struct {
	Program  string  `json:"program"`
	Protocol int     `json:"protocol"`         // ProtocolVersion when it was built
	Events   []Event `json:"events,omitempty"` // in life-cycle order
	// Error says why the hook could not be made from an empty configuration. Events is then
	// unknown.
	Error string `json:"error,omitempty"`
}

// Serve is the entire main function of a hook's program. It returns when hookhost no longer needs
// the program:
//
//	func main() { hostapi.Serve(newHook) }
//
// newHook is called once, when the host has sent the configuration. newHook reads it with
// Setup.Decode, opens what the hook needs and returns the hook, a value with one or more of the
// event methods. An error reaches the host with its kind. Serve rejects a hook without event
// methods, and one with a method that only looks like one.
//
// newHook must not change anything on the node, because --describe calls it too, with an empty
// configuration: exechost_startup is the place for that.
//
// A panic in newHook or in an event method becomes an error of KindInternal, with the stack in the
// log; the program keeps running. A panic in a goroutine that the hook started ends the program.
// SIGTERM and SIGINT have no effect, because the host decides when a hook ends. When the host is
// gone, the program exits at once. What it prints to os.Stdout and os.Stderr goes to the host's
// log. It must not print before main, nor write to descriptor 1 by itself. Its umask is 022.
//
// If it is started by hand, the program explains on standard error what it is and exits with status
// 2.
func Serve(newHook func(*Setup) (any, error)) {
	if os.Getenv(Handshake.MagicCookieKey) != Handshake.MagicCookieValue {
		os.Exit(byHand(newHook, os.Args, os.Stdout, os.Stderr))
	}
	syscall.Umask(0o022) // not inherited: users have to read the files that it makes for their jobs
	// Caught, not ignored: programs that the hook starts would inherit an ignored signal.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT)
	if err := holdLifeline(func() { os.Exit(1) }); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: Handshake,
		// go-plugin replaces os.Stderr by its own stream; log lines keep the real one.
		Plugins:    plugin.PluginSet{PluginName: &Plugin{New: newHook, Log: newLogger(os.Stderr)}},
		Logger:     hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: os.Stderr, JSONFormat: true}),
		GRPCServer: newGRPCServer,
	})
}

func newGRPCServer(opts []grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(MaxMessage),
		grpc.StaticStreamWindowSize(Window), grpc.StaticConnWindowSize(Window))...)
}

// byHand answers a person, or `hookhost hook import`, and returns the exit status.
func byHand(newHook func(*Setup) (any, error), args []string, stdout, stderr io.Writer) int {
	program := filepath.Base(args[0])
	if len(args) == 2 && args[1] == "--describe" {
		if err := json.NewEncoder(stdout).Encode(describe(newHook, program)); err != nil {
			fmt.Fprintf(stderr, "%s: %v\n", program, err)
			return 1
		}
		return 0
	}
	path, err := filepath.Abs(args[0])
	if err != nil {
		path = args[0]
	}
	fmt.Fprintf(stderr, `%[1]s is a hook: it is started by hookhost and does nothing by itself. To register it:
  hookhost hook create %[1]s
  hookhost hook import %[1]s application/x-executable default %[2]s
`, program, path)
	return 2
}

// describe makes the hook once, without a configuration, to find the events it handles.
func describe(newHook func(*Setup) (any, error), program string) Description {
	// Output of the constructor would spoil the line.
	stdout := os.Stdout
	os.Stdout = os.Stderr
	defer func() { os.Stdout = stdout }()

	d := Description{Program: program, Protocol: ProtocolVersion}
	s := &server{newHook: newHook, log: newLogger(io.Discard)}
	handlers, err := s.make(&Setup{Name: program, Log: s.log.WithFields(nil)})
	if err != nil {
		d.Error = err.Error()
		return d
	}
	d.Events = eventsOf(handlers)
	return d
}
