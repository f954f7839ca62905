// Package systemd makes the node's systemd start the unit that contains all jobs' cgroups, and does
// little else. No other package uses systemd's D-Bus.
//
// Everything below a unit with Delegate=yes belongs to hookhost. systemd does not touch it
// (systemd's docs/CGROUP_DELEGATION.md). So neither daemon-reload nor a restart of any service
// changes a job's limits, device filter or processes. Plain directories are not enough where
// systemd runs, because it changes units without Delegate.
//
// The unit's only process is a keeper (packaging/pbs_jobs.service), not hookhost itself, because an
// upgrade restarts hookhost.
package systemd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

// Run is the directory of systemd's sockets and state files.
const Run = "/run"

// System is the systemd of this node. A System holds no connection, and is safe for concurrent use.
type System struct {
	run     string
	timeout time.Duration
}

// New returns the systemd whose files are below run. Each of its calls takes at most timeout, and
// is repeated if the connection is lost, as in a daemon-reexec.
func New(run string, timeout time.Duration) *System { return &System{run: run, timeout: timeout} }

// Running reports whether systemd is the first process of this node: sd_booted(3).
func (s *System) Running() bool {
	info, err := os.Lstat(filepath.Join(s.run, "systemd/system"))
	return err == nil && info.IsDir()
}

// Wanted reports whether the jobs' parent should be a unit of systemd. mode is cgroup.systemd of
// the configuration. "require" fails if systemd is not the first process.
func (s *System) Wanted(mode string) (bool, error) {
	switch {
	case mode == "off":
		return false, nil
	case s.Running():
		return true, nil
	case mode == "require":
		return false,
			fmt.Errorf(`cgroup.systemd = "require": systemd is not the first process of this node: there is no %s`,
				filepath.Join(s.run, "systemd/system"))
	}
	return false, nil
}

// Active reports whether the unit is active, according to systemd's files. The link exists since
// systemd 236 and is removed when the unit stops (unit_export_invocation_id in core/unit.c).
// journald reads it too. With an older systemd, Active always returns false.
func (s *System) Active(unit string) bool {
	_, err := os.Readlink(filepath.Join(s.run, "systemd/units/invocation:"+unit))
	return err == nil
}

// Ensure makes systemd start the parent of all jobs, unless it is active. The unit comes from its
// unit file if one is installed. Otherwise it is transient with the same properties (unit.go).
// Ensure is idempotent, and several processes may call it at once. The unit's cgroup exists when it
// returns.
//
// Ensure fails if systemd does not answer, if the unit is masked, fails or is not delegated, and
// after the timeout. Errors name the unit.
func (s *System) Ensure(ctx context.Context, unit string) error {
	return s.call(ctx, "start "+unit, func(ctx context.Context, c *dbus.Conn) error {
		if err := start(ctx, c, unit); err != nil {
			return err
		}
		return check(ctx, c, unit)
	})
}

// Realize makes systemd create the cgroup of a unit that is active without one. When a unit's last
// process ends, systemd removes the empty parts of the cgroup (service_set_state in
// core/service.c). RemainAfterExit then keeps the unit active, and RefuseManualStop prevents
// another start.
//
// systemd creates the cgroup when any property is set. Here that is TasksMax, with its current
// value (bus_service_commit_properties).
func (s *System) Realize(ctx context.Context, unit string) error {
	return s.call(ctx, "make the cgroup of "+unit, func(ctx context.Context, c *dbus.Conn) error {
		return c.SetUnitPropertiesContext(ctx, unit, true, property("TasksMax", uint64(math.MaxUint64)))
	})
}

// Version returns systemd's version, 252 for "252.39-1~deb12u1".
func (s *System) Version(ctx context.Context) (version int, err error) {
	err = s.call(ctx, "ask for the version", func(_ context.Context, c *dbus.Conn) error {
		version, err = versionOf(c)
		return err
	})
	return version, err
}

// call connects for one call, because calls are too rare to keep a connection. A systemd that is
// re-executed meanwhile drops its connections without an answer. Then do is called again, so it
// must be idempotent.
func (s *System) call(ctx context.Context, what string, do func(context.Context, *dbus.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		err := s.once(ctx, do)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("systemd: %s: no answer within %v", what, s.timeout)
		case ctx.Err() != nil || !isLost(err):
			return fmt.Errorf("systemd: %s: %w", what, err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("systemd: %s: no answer within %v: %w", what, s.timeout, err)
		}
	}
}

var errLost = errors.New("systemd closed the connection")

// once connects and calls do. The library does not report a connection that breaks while it waits
// for a job. Here that ends the context.
func (s *System) once(ctx context.Context, do func(context.Context, *dbus.Conn) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := func(c *godbus.Conn, err error) (*godbus.Conn, error) {
		if err == nil {
			context.AfterFunc(c.Context(), func() { cancel(errLost) })
		}
		return c, err
	}
	// Systemd's own socket, which systemctl uses for root, exists before the message bus does.
	c, err := dbus.NewConnection(func() (*godbus.Conn, error) { return watched(s.dial(ctx)) })
	if err != nil && ctx.Err() == nil {
		var busErr error
		c, busErr = dbus.NewConnection(func() (*godbus.Conn, error) {
			return watched(godbus.ConnectSystemBus(godbus.WithContext(ctx)))
		})
		if err = errors.Join(err, busErr); busErr == nil {
			err = nil
		}
	}
	if err == nil {
		defer c.Close()
		err = do(ctx, c)
	}
	if err != nil && ctx.Err() != nil { // the library only reports that the connection was closed
		err = context.Cause(ctx)
	}
	return err
}

func (s *System) dial(ctx context.Context) (*godbus.Conn, error) {
	c, err := godbus.Dial("unix:path="+filepath.Join(s.run, "systemd/private"), godbus.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	if err := c.Auth([]godbus.Auth{godbus.AuthExternal(strconv.Itoa(os.Geteuid()))}); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// isLost reports whether err comes from the connection to systemd, not from systemd.
func isLost(err error) bool {
	var network *net.OpError
	return errors.Is(err, errLost) || errors.Is(err, godbus.ErrClosed) || errors.Is(err, io.EOF) ||
		errors.As(err, &network) ||
		isName(err, "org.freedesktop.DBus.Error.NoReply") || isName(err, "org.freedesktop.DBus.Error.Disconnected")
}

func property(name string, value any) dbus.Property {
	return dbus.Property{Name: name, Value: godbus.MakeVariant(value)}
}
