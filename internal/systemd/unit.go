package systemd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

// properties returns the properties of the jobs' parent. packaging/pbs_jobs.service has the same
// ones and explains them.
func properties(version int) []dbus.Property {
	list := []dbus.Property{
		dbus.PropDescription("PBS jobs"),
		dbus.PropSlice("-.slice"),
		dbus.PropBefore("hookhost.service", "pbs.service"),
		property("RefuseManualStop", true),
		property("IgnoreOnIsolate", true),
		dbus.PropExecStart([]string{"/bin/sleep", "infinity"}, true), // the library inverts the flag
		dbus.PropRemainAfterExit(true),
		property("Delegate", true),
		property("KillMode", "control-group"),
		property("TasksMax", uint64(math.MaxUint64)),
		property("TimeoutStopUSec", uint64((30 * time.Second).Microseconds())),
	}
	for _, since := range []struct {
		version  int
		property dbus.Property
	}{
		{240, dbus.PropType("exec")},
		{243, property("OOMPolicy", "continue")},
		{254, property("DelegateSubgroup", "keeper")},
	} {
		if version >= since.version {
			list = append(list, since.property)
		}
	}
	return list
}

// start starts the unit and waits for it. An active unit stays as it is.
func start(ctx context.Context, c *dbus.Conn, unit string) error {
	for again := false; ; again = true {
		load, active, err := states(ctx, c, unit)
		if err != nil {
			return err
		}
		done := make(chan string, 1)
		switch {
		case active == "active":
			return nil
		case load == "loaded":
			_, err = c.StartUnitContext(ctx, unit, "fail", done) // "replace" would cancel a shutdown
		case load == "not-found":
			var version int
			if version, err = versionOf(c); err == nil {
				_, err = c.StartTransientUnitContext(ctx, unit, "fail", properties(version), done)
			}
		case load == "masked":
			return fmt.Errorf("it is masked: systemctl unmask %s", unit)
		default:
			return fmt.Errorf("systemd cannot load it (%s): see systemctl status %s", load, unit)
		}
		// Another process was faster, and has created the same unit.
		if isName(err, "org.freedesktop.systemd1.UnitExists") && !again {
			continue
		}
		if err != nil {
			return err
		}
		select {
		case result := <-done:
			if result != "done" {
				return fmt.Errorf("its start has ended with %q: see systemctl status %s", result, unit)
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// check refuses a unit that would affect the jobs.
func check(ctx context.Context, c *dbus.Conn, unit string) error {
	has, err := c.GetUnitTypePropertiesContext(ctx, unit, "Service")
	if err != nil {
		return err
	}
	if delegate, _ := has["Delegate"].(bool); !delegate {
		return fmt.Errorf("it is without Delegate=yes: systemd would take the jobs' controllers away; see systemctl "+
			"cat %s", unit)
	}
	if at, _ := has["ControlGroup"].(string); !strings.HasSuffix(at, "/"+unit) || strings.Contains(at, ".slice/") {
		return fmt.Errorf("its cgroup is %q, jobs are to be in /%s: it has to have Slice=-.slice; see systemctl cat %s",
			at, unit, unit)
	}
	if policy, ok := has["OOMPolicy"].(string); ok && policy != "continue" {
		return fmt.Errorf("it has OOMPolicy=%s: one job that is out of memory would be the end of all; it has to be "+
			"continue", policy)
	}
	return nil
}

func states(ctx context.Context, c *dbus.Conn, unit string) (load, active string, err error) {
	has, err := c.GetUnitPropertiesContext(ctx, unit)
	if err != nil {
		return "", "", err
	}
	load, _ = has["LoadState"].(string)
	active, _ = has["ActiveState"].(string)
	return load, active, nil
}

func isName(err error, name string) bool {
	var e godbus.Error
	return errors.As(err, &e) && e.Name == name
}

func versionOf(c *dbus.Conn) (int, error) {
	text, err := c.GetManagerProperty("Version")
	if err != nil {
		return 0, err
	}
	return parseVersion(text)
}

// parseVersion reads "252.39-1~deb12u1", "v257" or "systemd 239", with or without quotes.
func parseVersion(text string) (int, error) {
	digits := strings.TrimLeft(strings.Trim(text, `"`), "demstvy ")
	if i := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		digits = digits[:i]
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0, fmt.Errorf("version %s: not a number", text)
	}
	return n, nil
}
