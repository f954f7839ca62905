// Package systemd asks the node's systemd for the unit that all jobs' cgroups are in, and for
// little else. The package is the only door to systemd's D-Bus.
//
// Everything below a unit with Delegate=yes is hookhost's. systemd does not look into it (systemd's
// docs/CGROUP_DELEGATION.md). So neither daemon-reload nor a restart of any service changes a job's
// limits, device filter or processes. Plain directories will not do where systemd runs, as it
// changes units without Delegate.
//
// The unit's one process is a keeper (packaging/pbs_jobs.service), not hookhost itself. An upgrade
// replaces hookhost, and would end the keeper with it.
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

// Run is where systemd keeps its sockets and what it tells of itself.
const Run = "/run"

// System is the systemd of this node. A System holds no connection, and is safe for concurrent use.
type System struct {
	run     string
	timeout time.Duration
}

// New returns the systemd whose files are below run. Each of its calls takes timeout at most, and
// is made again when the connection is lost, as in a daemon-reexec.
func New(run string, timeout time.Duration) *System { return &System{run: run, timeout: timeout} }

// Running reports whether systemd is the first process of this node: sd_booted(3).
func (s *System) Running() bool {
	info, err := os.Lstat(filepath.Join(s.run, "systemd/system"))
	return err == nil && info.IsDir()
}

// Wanted reports whether the jobs' parent is to be systemd's unit: mode is cgroup.systemd of the
// configuration. "require" fails where systemd is not the first process.
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

// Active reports whether systemd has the unit active, from its files alone. The link is there since
// systemd 236 and removed when the unit stops (unit_export_invocation_id in core/unit.c). journald
// reads it as well. The answer is always false with an older systemd.
func (s *System) Active(unit string) bool {
	_, err := os.Readlink(filepath.Join(s.run, "systemd/units/invocation:"+unit))
	return err == nil
}

// Ensure has systemd start the parent of all jobs, unless it is active. The unit comes from its
// unit file where one is installed, else it is transient with the same properties (unit.go). Ensure
// is idempotent, and several processes may call it at once. The unit's cgroup exists when it
// returns.
//
// Ensure fails when systemd does not answer, when the unit is masked, fails or is not delegated,
// and after the timeout. Errors name the unit.
func (s *System) Ensure(ctx context.Context, unit string) error {
	return s.call(ctx, "start "+unit, func(ctx context.Context, c *dbus.Conn) error {
		if err := start(ctx, c, unit); err != nil {
			return err
		}
		return check(ctx, c, unit)
	})
}

// Realize has systemd make the cgroup of a unit that is active without one. When a unit's last
// process ends, systemd removes the empty parts of the cgroup (service_set_state in
// core/service.c). RemainAfterExit keeps the unit active then, and RefuseManualStop prevents
// another start.
//
// systemd makes the cgroup when any property is set, here the TasksMax that the unit has anyway
// (bus_service_commit_properties).
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

// call connects for one call: they are too rare to keep a connection. A systemd that is re-executed
// meanwhile drops its connections without an answer, so what is done has to bear to be done again.
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

// once connects and does one thing. The library does not tell of a connection that breaks while a
// job is waited for; here it ends the context.
func (s *System) once(ctx context.Context, do func(context.Context, *dbus.Conn) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := func(c *godbus.Conn, err error) (*godbus.Conn, error) {
		if err == nil {
			context.AfterFunc(c.Context(), func() { cancel(errLost) })
		}
		return c, err
	}
	// Systemd's own socket, as systemctl uses it for root, is there before the message bus is.
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
	if err != nil && ctx.Err() != nil { // what the library says then is that somebody closed the connection
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

// isLost reports whether err is of the way to systemd, not systemd's answer.
func isLost(err error) bool {
	var network *net.OpError
	return errors.Is(err, errLost) || errors.Is(err, godbus.ErrClosed) || errors.Is(err, io.EOF) ||
		errors.As(err, &network) ||
		isName(err, "org.freedesktop.DBus.Error.NoReply") || isName(err, "org.freedesktop.DBus.Error.Disconnected")
}

func property(name string, value any) dbus.Property {
	return dbus.Property{Name: name, Value: godbus.MakeVariant(value)}
}
