package openpbs

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Stock is the hook that hookhost takes the place of.
const Stock = "pbs_cgroups"

// The content types of an import.
const (
	typeScript = "application/x-python"
	typeConfig = "application/x-config"
)

// Command is one directive of qmgr's. Input is what an import reads from "-": base64, up to an
// empty line.
type Command struct {
	Directive string
	Input     []byte
}

// Registration is how the hook is to be registered. Its zero value is not one: start from Default.
type Registration struct {
	Name       string
	Order      int    // 1 to 1000, ascending among hooks of one event
	Alarm      int    // seconds that one event may take
	Freq       int    // seconds between two exechost_periodic
	FailAction string // comma list of offline_vnodes, clear_vnodes_upon_recovery, scheduler_restart_cycle; none
	// More are events that hooks of the site's handle, beside those that hookhost itself needs. A
	// hook that is installed keeps those that it has.
	More []string
	// Named are the attributes among these that a hook which is there is to have as well, by PBS's
	// names: order, alarm, freq, fail_action. Install leaves its other attributes as they are.
	Named []string
	// DisableStock is the consent to disable pbs_cgroups.
	DisableStock bool
	// Cgswap asks for the server's hook that fills in cgswap, too: see InstallCgswap.
	Cgswap bool
}

// Default is the registration with the values of the stock hook's (pbs_cgroups.HK).
func Default() Registration {
	return Registration{Name: "hookhost", Order: 100, Alarm: 90, Freq: 120, FailAction: "offline_vnodes"}
}

// ErrStock is the refusal to register hookhost beside pbs_cgroups.
var ErrStock = errors.New("hook " + Stock + " is enabled: both would confine each job, in cgroups of the same name. " +
	"Drain the nodes, then give --disable-pbs-cgroups, or disable it yourself")

// preserved are the attributes that a hook which is installed keeps, as far as they are not named.
var preserved = []string{"order", "alarm", "freq", "fail_action"}

// preserves reports whether an installed hook that has value keeps it. PBS forgets freq with
// exechost_periodic.
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
		return fmt.Errorf("hook name %q: want letters, digits, _ and -, and not PBS in front", r.Name)
	case r.Name == Stock:
		return fmt.Errorf("hook name %q: that is the stock hook's", r.Name)
	case r.Order < 1 || r.Order > 1000:
		return fmt.Errorf("order %d: want 1 to 1000", r.Order)
	case r.Alarm < 5:
		return fmt.Errorf("alarm %d: want 5 seconds at least", r.Alarm)
	case r.Freq < 1:
		return fmt.Errorf("freq %d: want a second at least", r.Freq)
	}
	actions := strings.Split(r.FailAction, ",")
	for _, a := range actions {
		if !slices.Contains(failActions, a) || a == "none" && len(actions) > 1 {
			return fmt.Errorf("fail_action %q: want %s", r.FailAction, strings.Join(failActions, ", "))
		}
	}
	return r.checkMore()
}

// attributes are what is set, in an order that PBS takes: fail_action, freq and user depend on the
// events (mgr_hook_set in hook_func.c). enabled is apart.
func (r Registration) attributes() [][2]string {
	return [][2]string{{"type", "site"}, {"event", strings.Join(r.Events(), ",")}, {"order", strconv.Itoa(r.Order)},
		{"alarm", strconv.Itoa(r.Alarm)},
		{"freq", strconv.Itoa(r.Freq)}, {"user", "pbsadmin"}, {"fail_action", r.FailAction}}
}

// Install returns the directives that make the server's hooks what r says, none where they are.
// existing is the hook of that name and stock is pbs_cgroups, nil where there is none. others are
// the other hooks.
//
// A new hook is enabled last. A failure in between thus leaves a hook that is not called. The
// script is then imported once more, with a mark that says so.
//
// An enabled hook stays enabled while its script is replaced, which PBS does at once. A job that
// began while the hook was disabled would run unconfined for as long as it lives. An installed hook
// that is disabled stays so (StaysDisabled), unless it is to take the place of pbs_cgroups now.
//
// Install fails with ErrStock, when the hook of that name is somebody else's, and when a hook of
// another name is ours and enabled.
func (r Registration) Install(existing, stock *Hook, others ...*Hook) ([]Command, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	for _, h := range others {
		if _, ours := Ours(h.Script); ours && h.Enabled() && h.Name != r.Name {
			return nil, fmt.Errorf("hook %s is hookhost's already and enabled: "+
				"with %s beside it each event would come twice. "+
				"Give --name %[1]s, or take it away: hookhost openpbs uninstall --name %[1]s", h.Name, r.Name)
		}
	}
	note := ""
	if existing != nil {
		var ours bool
		if note, ours = Ours(existing.Script); !ours && !existing.blank() {
			return nil, fmt.Errorf("hook %s is there already and not hookhost's: choose another name, or delete it: "+
				"qmgr -c 'delete hook %[1]s'", r.Name)
		}
	}
	takeOver := stock.Enabled()
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
			list = append(list, Command{Directive: fmt.Sprintf("import hook %s %s base64 -", r.Name, kind),
				Input: encode(want)})
		}
	}
	have := Hook{}
	if existing != nil {
		have = *existing
	} else {
		list = append(list, Command{Directive: "create hook " + r.Name})
	}
	installed := existing.installed()
	enable := !installed || takeOver && !have.Enabled()
	if enable {
		if have.Attributes["enabled"] != "false" {
			set(r.Name, "enabled", "false")
		}
		content(typeScript, script(pending, note), have.Script)
	} else {
		content(typeScript, Script(note), have.Script)
	}
	if installed {
		r.More = slices.Concat(r.More, strings.Split(have.Attributes["event"], ","))
	}
	for _, a := range r.attributes() {
		value := have.Attributes[a[0]]
		if !sameList(value, a[1]) && !(installed && r.preserves(a[0], value)) {
			set(r.Name, a[0], a[1])
		}
	}
	if takeOver {
		set(Stock, "enabled", "false")
	}
	if enable {
		set(r.Name, "enabled", "true")
		content(typeScript, Script(note), nil)
	}
	return list, nil
}

// StaysDisabled reports whether existing, a hook of ours, was disabled by somebody since it was
// installed, and Install leaves it so.
func (r Registration) StaysDisabled(existing, stock *Hook) bool {
	return existing.installed() && !existing.Enabled() && !stock.Enabled()
}

// Uninstall returns the directives that take the hook away and put back what Install changed beside
// it. There are none when no hook has that name. Uninstall fails when the hook is somebody else's.
func (r Registration) Uninstall(existing, stock *Hook) ([]Command, error) {
	if existing == nil {
		return nil, nil
	}
	note, ours := Ours(existing.Script)
	if !ours && !existing.blank() {
		return nil, fmt.Errorf("hook %s is not hookhost's: left as it is", r.Name)
	}
	var list []Command
	if existing.Enabled() {
		list = append(list, Command{Directive: "set hook " + r.Name + " enabled = false"})
	}
	if note == Stock && stock != nil && !stock.Enabled() {
		list = append(list, Command{Directive: "set hook " + Stock + " enabled = true"})
	}
	// A server that was told the freq of an enabled hook runs the hook itself from then on (openpbs
	// src/server/hook_func.c, mgr_hook_set). The server does not stop that when a hook of MoM's is
	// deleted. The server then uses what it has freed, and may spin for ever (mgr_hook_delete,
	// run_periodic_hook). The server does stop that for a hook of its own event.
	return append(list, Command{Directive: "set hook " + r.Name + " event += periodic"},
		Command{Directive: "delete hook " + r.Name}), nil
}

// blank is a hook without a script, which is nobody's: an installation that broke off leaves one.
func (h *Hook) blank() bool { return len(h.Script) == 0 }

// running is a hook that MoM calls.
func (h *Hook) running() bool { return h.Enabled() && !h.blank() && h.Attributes["event"] != "" }

// installed is a hook whose installation came to its end: it runs, or somebody has disabled it
// since.
func (h *Hook) installed() bool {
	return h != nil && (h.running() || !h.blank() && h.Attributes["event"] != "" && !isPending(h.Script))
}

// sameList compares comma lists whose order does not count.
func sameList(a, b string) bool {
	x, y := strings.Split(a, ","), strings.Split(b, ",")
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}
