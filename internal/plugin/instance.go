package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"

	"github.com/hookhost/hookhost/hostapi"
)

// launcher starts hooks' programs.
type launcher struct {
	paths    paths
	spawn    *spawner
	sockets  socketDir
	limit    time.Duration
	node     string
	settings map[string]string

	log *logrus.Entry
}

// newLauncher makes a directory for sockets in runtimeDir. close removes it. limit is how long a
// program may take to start.
func newLauncher(r *Registry, runtimeDir string, limit time.Duration, log *logrus.Entry) (*launcher, error) {
	sockets, err := newSocketDir(runtimeDir)
	if err != nil {
		return nil, err
	}
	return &launcher{
		paths: r.paths(), spawn: newSpawner(), sockets: sockets, limit: limit,
		node: r.Node, settings: r.Settings, log: log,
	}, nil
}

// close ends every program that is left and removes the directory for sockets.
func (l *launcher) close() error {
	l.spawn.close()
	return l.sockets.remove()
}

// instance is one running program of a hook, configured and ready for events.
type instance struct {
	hook   Hook
	proc   *process
	client *hostapi.Client
	info   hostapi.Info

	plugin *goplugin.Client
	conn   connection
	killed atomic.Bool // by the host, because of an alarm: what dies with it is no fault of the program's
}

// environment is all that a hook's program gets beside go-plugin's own variables. A program has no
// use for many cpus or much memory, and what it takes the jobs do not have.
var environment = []string{
	"PATH=/usr/sbin:/usr/bin:/sbin:/bin",
	"LANG=C.UTF-8",
	"GOMAXPROCS=2",
	"GOMEMLIMIT=64MiB",
	fmt.Sprintf("HOOKHOST_LIFELINE_FD=%d", lifelineFD),
}

// launch starts a hook's program and configures it. The error has KindNode and names the cause in
// words for the administrator. Then nothing is left.
func (l *launcher) launch(ctx context.Context, h Hook, log *logrus.Entry) (_ *instance, err error) {
	ctx, cancel := l.limited(ctx)
	defer cancel()
	defer func() {
		if err != nil {
			err = hostapi.Errorf(hostapi.KindNode, "start hook %s: %w", h.Name, err)
		}
	}()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	config, err := l.config(h)
	if err != nil {
		return nil, err
	}
	inst, err := l.start(ctx, h, log)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, inst.proc.kill)
	defer stop()
	inst.info, err = inst.client.Configure(ctx, hostapi.SetupData{
		Name: h.Name, Node: l.node, Config: config, LogLevel: log.Logger.GetLevel().String(), Host: l.settings,
		Notices: true,
	})
	if err != nil {
		inst.kill()
		return nil, inst.startError(ctx, err)
	}
	return inst, nil
}

// limited returns ctx with the time that a program may take to start.
func (l *launcher) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, l.limit, fmt.Errorf("not ready after %v", l.limit))
}

// start starts a hook's program and shakes hands with it. The program is not configured yet. After
// an error nothing is left of it.
func (l *launcher) start(ctx context.Context, h Hook, log *logrus.Entry) (_ *instance, err error) {
	if h.Program == "" {
		return nil, errors.New("no program was imported")
	}
	file, err := l.paths.openSummed(h.Program, h.SHA256)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	inst := &instance{hook: h, proc: &process{
		hook: h.Name, path: h.Program, file: file, spawn: l.spawn,
		exited:    make(chan struct{}),
		stdoutLog: &lines{log: log, plain: logrus.DebugLevel},
		stderrLog: &lines{log: log, plain: logrus.InfoLevel},
	}}
	// go-plugin's start knows no context: it ends when the process does.
	stop := context.AfterFunc(ctx, inst.proc.kill)
	defer stop()
	defer func() {
		if err != nil {
			inst.kill()
			err = inst.startError(ctx, err)
		}
	}()
	return inst, inst.connect(l.sockets, l.limit)
}

// config returns the hook's configuration.
func (l *launcher) config(h Hook) ([]byte, error) {
	if h.Config == "" {
		return h.ConfigData, nil
	}
	return l.paths.read(h.Config, maxConfig)
}

// connect starts the process through go-plugin and gets its client.
func (i *instance) connect(sockets socketDir, limit time.Duration) error {
	i.plugin = goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  hostapi.Handshake,
		Plugins:          goplugin.PluginSet{hostapi.PluginName: &hostapi.Plugin{}},
		RunnerFunc:       i.runner,
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		AutoMTLS:         true,
		SkipHostEnv:      true,
		StartTimeout:     2 * limit, // ours comes first
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: string(sockets)},
		SyncStdout:       i.proc.stdoutLog,
		SyncStderr:       i.proc.stderrLog,
		Logger:           hclog.NewNullLogger(), // what it has to say about the process is said here
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithIdleTimeout(0), // no timer while nothing happens
			// The windows have a fixed size. Else each message is answered by a ping and that by
			// another, which wakes both sides up twice more.
			grpc.WithStaticStreamWindowSize(hostapi.Window), grpc.WithStaticConnWindowSize(hostapi.Window),
			grpc.WithChainStreamInterceptor(i.conn.note),
		},
	})
	if _, err := i.plugin.Start(); err != nil {
		return err
	}
	protocol, err := i.plugin.Client()
	if err != nil {
		return err
	}
	raw, err := protocol.Dispense(hostapi.PluginName)
	if err != nil {
		return err
	}
	i.client = raw.(*hostapi.Client) // as hostapi.Plugin says
	return nil
}

// runner takes over the directory and the variables that go-plugin made.
func (i *instance) runner(_ hclog.Logger, cmd *exec.Cmd, socketDir string) (runner.Runner, error) {
	i.proc.socketDir = socketDir
	i.proc.env = slices.Concat(environment, cmd.Env)
	return i.proc, nil
}

// startError finds the reason why a start failed in what the process did; err is what go-plugin or
// the hook said.
func (i *instance) startError(ctx context.Context, err error) error {
	var own *hostapi.Error
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case i.proc.handshakeErr != nil:
		return i.proc.handshakeErr
	case errors.As(err, &own) && !errors.Is(err, hostapi.ErrGone):
		return err
	case i.proc.endedItself():
		return fmt.Errorf("it ended before it was ready: %s", i.proc.cause())
	}
	return err
}

// kill ends the program at once and waits until nothing of it is left.
func (i *instance) kill() {
	i.proc.kill()
	i.clean()
}

// stopGrace is how long a program may take to end when it is asked to.
const stopGrace = 2 * time.Second

// clean asks the program to end if it still runs, kills it when it does not, and waits until
// nothing of it is left. Calls under way fail.
func (i *instance) clean() {
	// Asking is a call, and a program that is stopped or hangs never answers it.
	late := time.AfterFunc(stopGrace, i.proc.kill)
	defer late.Stop()
	if i.plugin != nil {
		i.plugin.Kill()
	}
	if i.proc.cmd != nil {
		i.proc.kill()
		<-i.proc.exited
	}
	i.conn.close()
	if i.proc.socketDir != "" {
		os.RemoveAll(i.proc.socketDir)
	}
}

// connection remembers a program's gRPC connection, which go-plugin forgets to close when the first
// call on it fails.
type connection struct {
	mu sync.Mutex
	c  io.Closer
}

// note is a stream interceptor: go-plugin opens a stream first of all.
func (c *connection) note(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer,
	opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	c.mu.Lock()
	c.c = cc
	c.mu.Unlock()
	return next(ctx, desc, cc, method, opts...)
}

func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.c != nil {
		c.c.Close()
	}
}
