package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/spelling"
)

// The values of the attributes type and user, spelled as qmgr spells them.
const (
	typeSite = "site" // a hook of this site
	TypePBS  = "pbs"  // a hook that comes with hookhost

	userAdmin = "pbsadmin" // the hook runs as the host's user: root
	userOwner = "pbsuser"  // PBS runs the hook as the job's owner; refused here
)

// FailAction is an action of PBS when a hook has failed. clear_vnodes_upon_recovery acts when the
// hook works again.
type FailAction string

// The fail_actions of PBS. An empty list is written "none".
const (
	FailOfflineVnodes    FailAction = "offline_vnodes"
	FailClearVnodes      FailAction = "clear_vnodes_upon_recovery"
	FailSchedulerRestart FailAction = "scheduler_restart_cycle"
)

// failActionEvents lists the events at which each action takes effect; a hook needs one of these
// (PBS Hooks Guide, fail_action).
var failActionEvents = map[FailAction][]hostapi.Event{
	FailOfflineVnodes:    {hostapi.EventBegin, hostapi.EventStartup, hostapi.EventPrologue},
	FailClearVnodes:      {hostapi.EventStartup},
	FailSchedulerRestart: {hostapi.EventBegin, hostapi.EventPrologue},
}

// Blame says what an error of a hook counts against. PBS has only fail_action for this.
type Blame string

// The values of on_node_error, on_alarm and on_defect.
const (
	BlameNode    Blame = "node"    // the event is refused, and the host's vnodes go offline
	BlameJob     Blame = "job"     // the event is refused
	BlameNothing Blame = "nothing" // the event goes on without the hook
)

// blames are the valid values; "" is an attribute that is not set.
var blames = []Blame{"", BlameNode, BlameJob, BlameNothing}

// Attributes are a hook's attributes with the names that qmgr gives them, and on_node_error,
// on_alarm and on_defect, which PBS does not have; see Blames.
type Attributes struct {
	Enabled bool `toml:"enabled" json:"enabled"`
	// Event lists the events that the hook gets; empty means every event that its program handles.
	Event EventList `toml:"event" json:"event"`
	// Order is the hook's place in the chain, ascending: 1 to 1000, with type=pbs 1 to 2000. Hooks
	// of equal order run in the order of their creation.
	Order int `toml:"order" json:"order"`
	// Alarm is the time limit for one event, in seconds, including the start of the program.
	Alarm      int            `toml:"alarm" json:"alarm"`
	FailAction FailActionList `toml:"fail_action" json:"fail_action"`
	// What an error of kind node, timeout or internal counts against; "" leaves it to fail_action.
	OnNodeError Blame `toml:"on_node_error,omitempty" json:"on_node_error,omitempty"`
	OnAlarm     Blame `toml:"on_alarm,omitempty" json:"on_alarm,omitempty"`
	OnDefect    Blame `toml:"on_defect,omitempty" json:"on_defect,omitempty"`
	// Freq is the time in seconds from the end of one exechost_periodic to the next.
	Freq int    `toml:"freq" json:"freq"`
	Type string `toml:"type" json:"type"`
	User string `toml:"user" json:"user"`
	// Debug logs each request and outcome of the hook.
	Debug bool `toml:"debug" json:"debug"`
}

// DefaultAttributes returns the attributes of a hook created by `create hook` of qmgr.
func DefaultAttributes() Attributes {
	return Attributes{Enabled: true, Order: 1, Alarm: 30, Freq: 120, Type: typeSite, User: userAdmin}
}

// Gets reports whether the hook gets the event, provided that its program handles it.
func (a Attributes) Gets(e hostapi.Event) bool {
	return a.Enabled && (len(a.Event) == 0 || slices.Contains(a.Event, e))
}

// Blames returns what an error of that kind counts against. Without an attribute for it, that is
// the node with fail_action = offline_vnodes, as in PBS, and otherwise the job. Errors of kind job
// and busy always count against the job.
func (a Attributes) Blames(kind hostapi.Kind) Blame {
	on := BlameJob
	switch kind {
	case hostapi.KindNode:
		on = a.OnNodeError
	case hostapi.KindTimeout:
		on = a.OnAlarm
	case hostapi.KindInternal:
		on = a.OnDefect
	}
	if on == "" && slices.Contains(a.FailAction, FailOfflineVnodes) {
		return BlameNode
	}
	return cmp.Or(on, BlameJob)
}

// fillIn gives the default to what an error counts against, if that is set to nothing.
func (a *Attributes) fillIn(defaults Attributes) {
	a.OnNodeError = cmp.Or(a.OnNodeError, defaults.OnNodeError)
	a.OnAlarm = cmp.Or(a.OnAlarm, defaults.OnAlarm)
	a.OnDefect = cmp.Or(a.OnDefect, defaults.OnDefect)
}

// With returns the names of the attributes that have that value.
func (a Attributes) With(b Blame) (names []string) {
	for i, on := range []Blame{a.OnNodeError, a.OnAlarm, a.OnDefect} {
		if on == b {
			names = append(names, []string{"on_node_error", "on_alarm", "on_defect"}[i])
		}
	}
	return names
}

// FailActions returns the actions after a failure of that kind in event e. Kind "" means that the
// hook accepted the event.
func (a Attributes) FailActions(e hostapi.Event, kind hostapi.Kind) []FailAction {
	var acts []FailAction
	add := func(f FailAction, due bool) {
		if due && slices.Contains(failActionEvents[f], e) {
			acts = append(acts, f)
		}
	}
	add(FailOfflineVnodes, a.Blames(kind) == BlameNode)
	add(FailClearVnodes, kind == "" && slices.Contains(a.FailAction, FailClearVnodes))
	add(FailSchedulerRestart, kind != "" && slices.Contains(a.FailAction, FailSchedulerRestart))
	return acts
}

// check returns the first attribute whose value PBS would refuse.
func (a Attributes) check() error {
	highest := 1000
	if a.Type == TypePBS {
		highest = 2000
	}
	switch {
	case a.Type != typeSite && a.Type != TypePBS:
		return fmt.Errorf("type = %q: want site or pbs", a.Type)
	case a.User == userOwner:
		return errors.New("user = pbsuser: hooks of hookhost run as root; register the hook with PBS's own qmgr, " +
			"which runs it as the job's owner")
	case a.User != userAdmin:
		return fmt.Errorf("user = %q: want pbsadmin", a.User)
	case a.Order < 1 || a.Order > highest:
		return fmt.Errorf("order = %d: want 1 to %d for type %s", a.Order, highest, a.Type)
	case a.Alarm < 1:
		return fmt.Errorf("alarm = %d: want a number of seconds above 0", a.Alarm)
	case a.Freq < 1:
		return fmt.Errorf("freq = %d: want a number of seconds above 0", a.Freq)
	}
	for _, b := range []Blame{a.OnNodeError, a.OnAlarm, a.OnDefect} {
		if !slices.Contains(blames, b) {
			return fmt.Errorf("%s = %q: want node, job or nothing", a.With(b)[0], b)
		}
	}
	for _, f := range a.FailAction {
		needs := EventList(failActionEvents[f])
		acts := func(e hostapi.Event) bool { return slices.Contains(needs, e) }
		if len(a.Event) > 0 && !slices.ContainsFunc(a.Event, acts) {
			return fmt.Errorf("fail_action = %s: event must name one of %s", f, needs)
		}
	}
	return nil
}

// AttributeNames are the attributes that can be set, in the order of `list hook` in qmgr.
var AttributeNames = []string{"type", "enabled", "event", "order", "alarm", "fail_action", "on_node_error", "on_alarm",
	"on_defect", "freq", "user", "debug"}

// set sets an attribute to a value spelled as in qmgr's assignments.
func (a *Attributes) set(attr, value string) error {
	var err error
	switch attr {
	case "enabled":
		a.Enabled, err = parseBool(value)
	case "debug":
		a.Debug, err = parseBool(value)
	case "order":
		a.Order, err = parseInt(value)
	case "alarm":
		a.Alarm, err = parseInt(value)
	case "freq":
		a.Freq, err = parseInt(value)
	case "event":
		err = a.Event.UnmarshalText([]byte(value))
	case "fail_action":
		err = a.FailAction.UnmarshalText([]byte(value))
	case "on_node_error":
		a.OnNodeError = Blame(value)
	case "on_alarm":
		a.OnAlarm = Blame(value)
	case "on_defect":
		a.OnDefect = Blame(value)
	case "user":
		a.User = value
	case "type":
		if value != a.Type {
			err = fmt.Errorf("a hook of type %s stays one", a.Type)
		}
	default:
		return spelling.Unknown("attribute", attr, AttributeNames)
	}
	if err != nil {
		return fmt.Errorf("%s = %s: %w", attr, value, err)
	}
	return nil
}

// EventList is a list of events, written with commas between them.
type EventList []hostapi.Event

func (l EventList) String() string { return join(l) }

// MarshalText writes the list with commas; the empty list is "".
func (l EventList) MarshalText() ([]byte, error) { return []byte(join(l)), nil }

// UnmarshalText rejects an event that PBS's MoM does not have and one that is listed twice.
func (l *EventList) UnmarshalText(b []byte) error {
	list, err := split(string(b), hostapi.ParseEvent)
	if err == nil {
		*l = list
	}
	return err
}

// FailActionList is a list of fail_actions, written with commas between them; the empty list is
// "none".
type FailActionList []FailAction

func (l FailActionList) String() string {
	if len(l) == 0 {
		return "none"
	}
	return join(l)
}

// MarshalText writes the list with commas; the empty list is "none".
func (l FailActionList) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText rejects an action that PBS does not have, one that is listed twice, and none beside
// another.
func (l *FailActionList) UnmarshalText(b []byte) error {
	if s := strings.TrimSpace(string(b)); s == "none" || s == "" {
		*l = nil
		return nil
	}
	list, err := split(string(b), func(s string) (FailAction, error) {
		if s == "none" {
			return "", errors.New("none stands alone")
		}
		if failActionEvents[FailAction(s)] == nil {
			return "", fmt.Errorf("%q: want none, offline_vnodes, clear_vnodes_upon_recovery or "+
				"scheduler_restart_cycle", s)
		}
		return FailAction(s), nil
	})
	if err == nil {
		*l = list
	}
	return err
}

func join[T ~string](list []T) string {
	words := make([]string, len(list))
	for i, v := range list {
		words[i] = string(v)
	}
	return strings.Join(words, ",")
}

func split[T comparable](s string, parse func(string) (T, error)) ([]T, error) {
	if strings.TrimSpace(s) == "" {
		return nil, nil
	}
	var list []T
	for word := range strings.SplitSeq(s, ",") {
		v, err := parse(strings.TrimSpace(word))
		if err != nil {
			return nil, err
		}
		if slices.Contains(list, v) {
			return nil, fmt.Errorf("%v comes twice", v)
		}
		list = append(list, v)
	}
	return list, nil
}

// parseBool accepts qmgr's spellings of a boolean.
func parseBool(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "true", "t", "yes", "y", "1":
		return true, nil
	case "false", "f", "no", "n", "0":
		return false, nil
	}
	return false, errors.New("want true or false")
}

func parseInt(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, errors.New("want a whole number")
	}
	return n, nil
}
