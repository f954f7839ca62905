package openpbs

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Stock is the hook that hookhost replaces.
const Stock = "pbs_cgroups"

// The content types of an import.
const (
	typeScript = "application/x-python"
	typeConfig = "application/x-config"
)

// Command is one directive of qmgr. Input is the standard input of an import: base64, up to an
// empty line.
type Command struct {
	Directive string
	Input     []byte
}

// Registration describes how to register the hook. The zero value is invalid: start from Default.
type Registration struct {
	Name       string
	Order      int    // 1 to 1000, ascending among hooks of one event
	Alarm      int    // time limit of one event, in seconds
	Freq       int    // seconds between two exechost_periodic
	FailAction string // comma list of offline_vnodes, clear_vnodes_upon_recovery, scheduler_restart_cycle; none
	// More are events that the site's hooks handle, in addition to those that hookhost itself
	// needs. An installed hook keeps its events.
	More []string
	// Named are the attributes that Install also sets on an existing hook, by PBS's names: order,
	// alarm, freq, fail_action. It leaves the other ones unchanged.
	Named []string
	// DisableStock permits Install to disable pbs_cgroups.
	DisableStock bool
	// Disabled requests a hook that is not enabled yet, beside pbs_cgroups. An installed hook stays
	// as it is.
	Disabled bool
	// Delivered is pbs_cgroups as PBS delivers it, or nil. A hook of that name is not deleted but
	// made that again. DeliveredIn is the directory of its files.
	Delivered   *Hook
	DeliveredIn MoMHooks
	// Cgswap requests the server's hook that fills in cgswap too: see InstallCgswap.
	Cgswap bool
	// Container requests the resource with which a job names its image.
	Container bool
}

// Default returns a registration with the values of the stock hook (pbs_cgroups.HK).
func Default() Registration {
	return Registration{Name: "hookhost", Order: 100, Alarm: 90, Freq: 120, FailAction: "offline_vnodes"}
}

// ErrStock is the refusal to register hookhost beside pbs_cgroups.
var ErrStock = errors.New("hook " + Stock + " is enabled: both would confine each job, in cgroups of the same name. " +
	"Drain the nodes. Then use --disable-pbs-cgroups, or disable that hook yourself. To move hosts in stages, " +
	"use --disabled")

// preserved are the attributes that an installed hook keeps unless Named has them.
var preserved = []string{"order", "alarm", "freq", "fail_action"}

// preserves reports whether an installed hook with that value keeps it. PBS resets freq when
// exechost_periodic is removed.
func (r Registration) preserves(attribute, value string) bool {
	return slices.Contains(preserved, attribute) && !slices.Contains(r.Named, attribute) &&
		(attribute != "freq" || value != "")
}

var hookName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

var failActions = []string{"none", "offline_vnodes", "clear_vnodes_upon_recovery", "scheduler_restart_cycle"}

// Check returns the first value that PBS would refuse (set_hook_* in hook.c).
func (r Registration) Check() error {
	switch {
	case !hookName.MatchString(r.Name) || strings.HasPrefix(r.Name, "PBS"):
		return fmt.Errorf("hook name %q: want letters, digits, _ and -, and no PBS in front", r.Name)
	case r.Order < 1 || r.Order > 1000:
		return fmt.Errorf("order %d: want 1 to 1000", r.Order)
	case r.Alarm < 5:
		return fmt.Errorf("alarm %d: want at least 5 seconds", r.Alarm)
	case r.Freq < 1:
		return fmt.Errorf("freq %d: want at least a second", r.Freq)
	case r.Disabled && (r.DisableStock || r.Name == Stock):
		return errors.New("a hook that is not enabled cannot replace " + Stock)
	}
	actions := strings.Split(r.FailAction, ",")
	for _, a := range actions {
		if !slices.Contains(failActions, a) || a == "none" && len(actions) > 1 {
			return fmt.Errorf("fail_action %q: want %s", r.FailAction, strings.Join(failActions, ", "))
		}
	}
	return r.checkMore()
}

// attributes returns the attributes to set, in an order that PBS accepts: fail_action, freq and
// user depend on the events (mgr_hook_set in hook_func.c). enabled is set separately.
func (r Registration) attributes() [][2]string {
	return [][2]string{{"type", "site"}, {"event", strings.Join(r.Events(), ",")}, {"order", strconv.Itoa(r.Order)},
		{"alarm", strconv.Itoa(r.Alarm)},
		{"freq", strconv.Itoa(r.Freq)}, {"user", "pbsadmin"}, {"fail_action", r.FailAction}}
}

// Install returns the directives that make the server's hooks match r, or none if they already do.
// existing is the hook of that name and stock is pbs_cgroups; both may be nil. others are the other
// hooks.
//
// A new hook is enabled last, so a failure in between leaves a hook that is not called. Until then
// its script has a mark that says so. At the end the script is imported again without it.
//
// An enabled hook stays enabled while its script is replaced, which PBS does at once. A job that
// began while the hook was disabled would never be confined. An installed hook that is disabled
// stays disabled (StaysDisabled), unless it replaces pbs_cgroups now.
//
// Install fails with ErrStock if pbs_cgroups is enabled and must not be disabled. It also fails if
// hookhost did not create the hook of that name, and if a hook of another name is ours and enabled.
// Only pbs_cgroups itself is replaced, if it is as PBS delivers it.
func (r Registration) Install(existing, stock *Hook, others ...*Hook) ([]Command, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	for _, h := range others {
		if _, ours := Ours(h.Script); ours && h.Enabled() && h.Name != r.Name {
			return nil, fmt.Errorf("hook %s is already hookhost's and enabled: "+
				"with %s too, each event would come twice. "+
				"Give --name %[1]s, or remove that hook: hookhost openpbs uninstall --name %[1]s", h.Name, r.Name)
		}
	}
	have, note, ours := Hook{}, "", false
	if existing != nil {
		have = *existing
		note, ours = Ours(have.Script)
	}
	if !ours && !have.blank() {
		if err := r.checkReplace(existing); err != nil {
			return nil, err
		}
	}
	// A blank hook of that name is what an interrupted installation has created.
	takeOver := stock.Enabled() && !(r.Name == Stock && (ours || have.blank())) && !r.Disabled
	if takeOver && !r.DisableStock {
		return nil, ErrStock
	}
	if takeOver {
		note = Stock
	}
	var list []Command
	set := func(hook, attribute, value string) {
		if strings.Contains(value, ",") {
			value = `"` + value + `"`
		}
		list = append(list, Command{Directive: fmt.Sprintf("set hook %s %s = %s", hook, attribute, value)})
	}
	content := func(kind string, want, have []byte) {
		if string(want) != string(have) {
			list = append(list, r.importing(kind, want))
		}
	}
	if existing == nil {
		list = append(list, Command{Directive: "create hook " + r.Name})
	}
	installed := existing.installed()
	enable := !installed || takeOver && !have.Enabled()
	if enable { // the note first: it has to survive an interruption
		content(typeScript, script(pending, note), have.Script)
		if have.Attributes["enabled"] != "false" {
			set(r.Name, "enabled", "false")
		}
	} else {
		content(typeScript, Script(note), have.Script)
	}
	if r.replaces(existing) && bytes.Equal(have.Config, r.Delivered.Config) {
		content(typeConfig, []byte(NoConfig), have.Config)
	}
	if installed {
		r.More = slices.Concat(r.More, strings.Split(have.Attributes["event"], ","))
	}
	for _, a := range r.attributes() {
		value := have.Attributes[a[0]]
		if !sameList(value, a[1]) && !((installed || r.replaces(existing)) && r.preserves(a[0], value)) {
			set(r.Name, a[0], a[1])
		}
	}
	if takeOver && r.Name != Stock {
		set(Stock, "enabled", "false")
	}
	if enable {
		if !r.Disabled {
			set(r.Name, "enabled", "true")
		}
		content(typeScript, Script(note), nil)
	}
	return list, nil
}

// StaysDisabled reports whether Install leaves the hook disabled: on request, or because somebody
// has disabled it since its installation.
func (r Registration) StaysDisabled(existing, stock *Hook) bool {
	return r.Disabled && !existing.Enabled() || existing.installed() && !existing.Enabled() && !stock.Enabled()
}

// Uninstall returns the directives that delete the hook and undo Install's other changes. If the
// hook is pbs_cgroups, they make it the stock hook again. There are none if no hook has that name,
// or if it is the stock hook already. Otherwise Uninstall fails if hookhost did not create the
// hook, or if it replaced an enabled stock hook that it cannot restore.
func (r Registration) Uninstall(existing, stock *Hook) ([]Command, error) {
	if existing == nil {
		return nil, nil
	}
	if r.replaces(existing) && bytes.Equal(existing.Script, r.Delivered.Script) {
		return nil, nil
	}
	note, ours := Ours(existing.Script)
	if !ours && !existing.blank() {
		return nil, fmt.Errorf("hook %s is not hookhost's: left unchanged", r.Name)
	}
	if r.Name == Stock && note == Stock && r.Delivered == nil {
		return nil, errors.New("hook " + Stock + " was PBS's, but PBS_EXEC has none to restore: name another (--exec)")
	}
	var list []Command
	if existing.Enabled() {
		list = append(list, Command{Directive: "set hook " + r.Name + " enabled = false"})
	}
	if r.replaces(existing) {
		return append(list, r.restore(existing, note == Stock)...), nil
	}
	if note == Stock && stock != nil && !stock.Enabled() {
		list = append(list, Command{Directive: "set hook " + Stock + " enabled = true"})
	}
	// Once freq of an enabled hook has been set, the server also runs the hook itself (openpbs
	// src/server/hook_func.c, mgr_hook_set). It does not stop that when a hook of MoM is deleted.
	// It then uses freed memory, and may loop forever (mgr_hook_delete, run_periodic_hook). For a
	// hook with an event of the server, it does stop.
	return append(list, Command{Directive: "set hook " + r.Name + " event += periodic"},
		Command{Directive: "delete hook " + r.Name}), nil
}

// blank reports whether the hook has no script. An interrupted installation leaves such a hook, so
// it belongs to nobody.
func (h *Hook) blank() bool { return len(h.Script) == 0 }

// installed reports whether the hook's installation was completed: it runs, or somebody has
// disabled it since.
func (h *Hook) installed() bool {
	if h == nil || h.Attributes["event"] == "" {
		return false
	}
	_, ours := Ours(h.Script)
	return ours && !isPending(h.Script)
}

// sameList compares comma lists regardless of order.
func sameList(a, b string) bool {
	x, y := strings.Split(a, ","), strings.Split(b, ",")
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}
