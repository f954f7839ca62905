package systemd

import (
	"context"
	"fmt"
	"math"
	"os"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

// StartDaemon has systemd start a program as a transient service. stderr is the program's standard
// error. The unit is gone when the program ends, whatever its exit status. A unit of that name that
// exists is left as it is, and no error: StartDaemon does not wait for the program in either case.
func (s *System) StartDaemon(ctx context.Context, unit string, argv []string, stderr *os.File) error {
	return s.call(ctx, "start "+unit, func(ctx context.Context, c *dbus.Conn) error {
		_, err := c.StartTransientUnitContext(ctx, unit, "fail", daemonProperties(argv, stderr), nil)
		if isName(err, "org.freedesktop.systemd1.UnitExists") {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%q: %w", argv, err)
		}
		return nil
	})
}

// daemonProperties are those of packaging/hookhost.service that concern one that nobody starts
// anew.
func daemonProperties(argv []string, stderr *os.File) []dbus.Property {
	return []dbus.Property{
		dbus.PropDescription("hookhost: hook host for PBS jobs, until idle"),
		dbus.PropExecStart(argv, false),
		property("CollectMode", "inactive-or-failed"),
		property("StandardOutput", "null"),
		property("StandardErrorFileDescriptor", godbus.UnixFD(stderr.Fd())),
		property("KillMode", "control-group"),
		property("OOMScoreAdjust", int32(-900)),
		property("TasksMax", uint64(math.MaxUint64)),
		property("LimitNOFILE", uint64(65536)),
	}
}
