package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"

	"github.com/hookhost/hookhost/hostapi"
)

// launcher starts hooks' programs.
type launcher struct {
	paths    paths
	sockets  string // the directory of the programs' sockets
	limit    time.Duration
	node     string
	settings map[string]string
	dial     []grpc.DialOption

	log *logrus.Entry
}

// maxRuntimeDir leaves room for go-plugin's names: a unix socket's path has at most 107 bytes.
const maxRuntimeDir = 107 - len("/plugin4294967295")

// newLauncher makes runtimeDir for sockets, which only the host's user can enter. So connections
// need no certificates (go-plugin's AutoMTLS). close removes the directory. newLauncher also
// removes the remains of a host that was killed. limit is how long a program may take to start.
func newLauncher(r *Registry, runtimeDir string, limit time.Duration, log *logrus.Entry) (*launcher, error) {
	if len(runtimeDir) > maxRuntimeDir {
		return nil, fmt.Errorf("runtime directory %s: %d bytes, %d fit before a socket's name", runtimeDir,
			len(runtimeDir), maxRuntimeDir)
	}
	err := os.RemoveAll(runtimeDir)
	if err == nil {
		err = os.MkdirAll(runtimeDir, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("runtime directory: %w", err)
	}
	return &launcher{
		paths: r.paths(), sockets: runtimeDir, limit: limit, node: r.Node, settings: r.Settings, log: log,
	}, nil
}

// close removes the directory for sockets. By then the programs have ended.
func (l *launcher) close() error { return os.RemoveAll(l.sockets) }

// lifelineFD is the child's first descriptor after 0, 1 and 2: the reading end of a pipe. End of
// file there means that the host is gone.
const lifelineFD = 3

// environment is the entire environment of a hook's program apart from go-plugin's variables. A
// program needs few cpus and little memory, and the jobs need the rest.
var environment = []string{
	"PATH=/usr/sbin:/usr/bin:/sbin:/bin",
	"LANG=C.UTF-8",
	"GOMAXPROCS=2",
	"GOMEMLIMIT=64MiB",
	fmt.Sprintf("HOOKHOST_LIFELINE_FD=%d", lifelineFD),
}

// launch starts a hook's program and configures it. The error has KindNode and names the cause in
// terms an administrator understands. After an error nothing is left.
func (l *launcher) launch(ctx context.Context, h Hook, log *logrus.Entry) (_ *instance, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.limit, fmt.Errorf("not ready after %v", l.limit))
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
	stop := context.AfterFunc(ctx, inst.signal)
	defer stop()
	inst.info, err = inst.client.Configure(ctx, hostapi.SetupData{
		Name: h.Name, Node: l.node, Config: config, LogLevel: log.Logger.GetLevel().String(), Host: l.settings,
	})
	if err != nil {
		inst.kill()
		return nil, inst.startError(ctx, err)
	}
	return inst, nil
}

// config returns the hook's configuration.
func (l *launcher) config(h Hook) ([]byte, error) {
	if h.Config == "" {
		return h.ConfigData, nil
	}
	return l.paths.read(h.Config, maxConfig)
}

// start starts a hook's program and completes the handshake. The program is not configured yet.
// After an error nothing of it is left.
func (l *launcher) start(ctx context.Context, h Hook, log *logrus.Entry) (*instance, error) {
	if h.Program == "" {
		return nil, errors.New("no program was imported")
	}
	file, err := l.paths.openSummed(h.Program, h.SHA256)
	if err != nil {
		return nil, err
	}
	file.Close()
	inst, err := l.prepare(h, log)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, inst.signal) // go-plugin's start takes no context
	defer stop()
	if err := inst.connect(); err != nil {
		inst.kill()
		return nil, inst.startError(ctx, err)
	}
	return inst, nil
}

// prepare returns an instance whose program is not started yet.
func (l *launcher) prepare(h Hook, log *logrus.Entry) (*instance, error) {
	lifeline, host, err := os.Pipe() // close-on-exec: no sibling inherits it
	if err != nil {
		return nil, err
	}
	i := &instance{
		hook: h, lifeline: lifeline, host: host, exited: make(chan struct{}),
		stderr: &lines{log: log, plain: logrus.InfoLevel},
	}
	printed, complaints := &lines{log: log, plain: logrus.DebugLevel}, &lines{log: log, plain: logrus.InfoLevel}
	i.synced = []*lines{printed, complaints}
	life, signal := context.WithCancel(context.Background())
	i.signal = signal
	i.cmd = exec.CommandContext(life, h.Program)
	// Kills the session, because a program may have started others.
	i.cmd.Cancel = i.killSession
	i.cmd.Dir = "/"
	i.cmd.Env = append([]string{goplugin.EnvUnixSocketDir + "=" + l.sockets}, environment...)
	i.cmd.ExtraFiles = []*os.File{lifelineFD - 3: lifeline}
	i.cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:    true,
		PidFD:     &i.pidfd,
		Pdeathsig: syscall.SIGKILL, // in addition to the lifeline: for a program that hangs or does not watch it
	}
	i.plugin = goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  hostapi.Handshake,
		Plugins:          goplugin.PluginSet{hostapi.PluginName: &hostapi.Plugin{}},
		Cmd:              i.cmd,
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		SkipHostEnv:      true,
		StartTimeout:     2 * l.limit, // our limit comes first
		Stderr:           i.stderr,
		SyncStdout:       printed,
		SyncStderr:       complaints,
		// Off, like go-plugin's own reading of the program's log, which panics at a line whose
		// @message is not text.
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Off, Output: io.Discard}),
		GRPCDialOptions: append([]grpc.DialOption{
			grpc.WithIdleTimeout(0), // no timer while nothing happens
			// The windows have a fixed size. Otherwise each message and each answer would trigger a
			// ping, which would wake both sides twice more.
			grpc.WithStaticStreamWindowSize(hostapi.Window), grpc.WithStaticConnWindowSize(hostapi.Window),
			grpc.WithChainStreamInterceptor(i.conn.note),
		}, l.dial...),
	})
	return i, nil
}
