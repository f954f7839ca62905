package host

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
)

// merger combines the outcomes of all hooks into one. A hook claims whatever it sets:
//
//   - Hooks claim environment variables that they set or unset, those of attached processes,
//     resource limits, keys of resources_used, fields of the usage, the join and the walltime
//     limit. A second claim with the same value changes nothing. A claim with another value is an
//     error that names both hooks and the thing; the first value stays. The same holds for each job
//     of Outcome.Jobs by itself.
//   - If a hook that comes with hookhost and a site's hook claim different values, hookhost's value
//     counts and the error is the site's hook's, whichever was called first. Otherwise a mistake in
//     a site's hook would trigger the fail_action of a hook that has not failed.
//   - Progname and Argv are not claimed but cascade, as in PBS: each hook gets what the one before
//     it left, so that wrappers can be put around wrappers, and the last one's values are used. The
//     variables set so far are in the next hook's Env in the same way; seeing a value is no claim,
//     changing it is.
//   - Message, Diag, JobStderr and Notes are collected in order; see bounded.
//   - State, CallAgain and CallAtElapsed are between each hook and the host, and no part of the
//     merged outcome.
type merger struct {
	out   hostapi.Outcome
	owner map[string]string // hook by what it claimed

	builtIn map[string]bool  // hooks that come with hookhost
	charged map[string]error // errors of hooks that were added earlier, by hook
}

// add merges the outcome of a hook. The error has KindNode and joins all conflicts: an
// administrator has to resolve the conflict between two hooks. Conflicts that are the fault of
// earlier hooks are added to charged.
func (m *merger) add(hook string, o *hostapi.Outcome) error {
	var errs []error
	errs = append(errs, claimEach(m, variable, "", hook, &m.out.SetEnv, o.SetEnv))
	m.out.UnsetEnv = slices.DeleteFunc(m.out.UnsetEnv, func(name string) bool {
		_, set := m.out.SetEnv[name]
		return set // instead: see claim
	})
	errs = append(errs, claimEach(m, attachVariable, "", hook, &m.out.AttachEnv, o.AttachEnv))
	for _, name := range o.UnsetEnv {
		unset := slices.Contains(m.out.UnsetEnv, name)
		if err := m.claim(variable+name, hook, unset); err != nil {
			errs = append(errs, err)
		} else if !unset {
			delete(m.out.SetEnv, name)
			m.out.UnsetEnv = append(m.out.UnsetEnv, name)
		}
	}
	if o.Progname != nil {
		m.out.Progname = o.Progname
	}
	if o.Argv != nil {
		m.out.Argv = o.Argv
	}
	errs = append(errs, m.usage("", hook, &m.out.Usage, o.Usage))
	errs = append(errs, claimEach(m, resourceUsed, "", hook, &m.out.ResourcesUsed, o.ResourcesUsed))
	errs = append(errs, m.vnodes(hook, o.Vnodes))
	errs = append(errs, claimValue(m, walltimeLimit, hook, &m.out.WalltimeLimit, o.WalltimeLimit))
	m.out.Diag = joinLines(m.out.Diag, o.Diag)
	m.out.JobStderr = append(m.out.JobStderr, bounded(o.JobStderr)...)
	m.out.Notes = append(m.out.Notes, bounded(o.Notes)...)
	for id, u := range o.Jobs {
		if u != nil {
			errs = append(errs, m.job(hook, id, u))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	return nil
}

// job merges the findings of a periodic or startup about one job.
func (m *merger) job(hook, id string, u *hostapi.JobUpdate) error {
	into := m.out.Jobs[id]
	if into == nil {
		into = new(hostapi.JobUpdate)
		put(&m.out.Jobs, id, into)
	}
	var errs []error
	of := " of job " + id
	errs = append(errs, m.usage(of, hook, &into.Usage, u.Usage))
	errs = append(errs, claimEach(m, resourceUsed, of, hook, &into.ResourcesUsed, u.ResourcesUsed))
	errs = append(errs, claimEach(m, attachVariable, of, hook, &into.AttachEnv, u.AttachEnv))
	errs = append(errs, claimValue(m, walltimeLimit+of, hook, &into.WalltimeLimit, u.WalltimeLimit))
	into.Diag = joinLines(into.Diag, u.Diag)
	into.JobStderr = append(into.JobStderr, bounded(u.JobStderr)...)
	into.Notes = append(into.Notes, bounded(u.Notes)...)
	return errors.Join(errs...)
}

// bounded returns the texts of one answer that are used. Everything after the host compares each
// text with those before it, which must not take long for a hook that answers with 100,000.
func bounded(texts []string) []string { return texts[:min(len(texts), hostapi.MaxTexts+1)] }

// The things that hooks claim. For an entry of a map, its key follows.
const (
	variable       = "environment variable "
	attachVariable = "attached processes' environment variable "
	resourceUsed   = "resources_used."
	walltimeLimit  = "walltime_limit"
)

// claimEach merges a map whose keys are claimed one by one. thing and key name the claim, and of
// names its owner.
func claimEach[M ~map[string]V, V comparable](m *merger, thing, of, hook string, into *M, from M) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(from)) {
		had, set := (*into)[name]
		if err := m.claim(thing+name+of, hook, set && had == from[name]); err != nil {
			errs = append(errs, err)
			continue
		}
		put(into, name, from[name])
	}
	return errors.Join(errs...)
}

// claimValue merges a value, unless it is nil.
func claimValue[V comparable](m *merger, thing, hook string, into **V, from *V) error {
	if from == nil {
		return nil
	}
	err := m.claim(thing, hook, *into != nil && **into == *from)
	if err == nil {
		*into = from
	}
	return err
}

// claim gives the thing to the hook. It fails if another hook has claimed the thing with another
// value, unless the error is that hook's. Then the caller replaces the value.
func (m *merger) claim(thing, hook string, same bool) error {
	owner, taken := m.owner[thing]
	switch {
	case !taken:
		put(&m.owner, thing, hook)
		return nil
	case same:
		return nil
	case m.builtIn[owner] == m.builtIn[hook]:
		return fmt.Errorf("hooks %s and %s both set %s to different values", owner, hook, thing)
	case m.builtIn[owner]:
		return siteConflict(hook, owner, thing)
	}
	m.owner[thing] = hook
	err := &hostapi.Error{Kind: hostapi.KindNode, Err: siteConflict(owner, hook, thing)}
	put(&m.charged, owner, errors.Join(m.charged[owner], err))
	return nil
}

func siteConflict(site, builtIn, thing string) error {
	return fmt.Errorf("hook '%s' sets %s to another value than hook '%s': leave it out of the answer", site, thing,
		builtIn)
}

// usage merges field by field: one hook measures memory, another devices.
func (m *merger) usage(of, hook string, into **hostapi.HostUsage, from *hostapi.HostUsage) error {
	if from == nil {
		return nil
	}
	if *into == nil {
		*into = new(hostapi.HostUsage)
	}
	var errs []error
	to, given := reflect.ValueOf(*into).Elem(), reflect.ValueOf(from).Elem()
	for field, value := range given.Fields() {
		if value.IsZero() {
			continue
		}
		had := to.FieldByIndex(field.Index)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if err := m.claim("usage."+name+of, hook, reflect.DeepEqual(had.Interface(), value.Interface())); err != nil {
			errs = append(errs, err)
			continue
		}
		had.Set(value)
	}
	return errors.Join(errs...)
}

// vnodes merges a hook's reports about vnodes. For each vnode, each resource, sharing, state and
// comment is a separate claim.
func (m *merger) vnodes(hook string, from map[string]*hostapi.Vnode) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(from)) {
		v := from[name]
		if v == nil {
			continue
		}
		into := m.out.Vnodes[name]
		if into == nil {
			into = &hostapi.Vnode{}
			put(&m.out.Vnodes, name, into)
		}
		of := " of vnode " + name
		errs = append(errs,
			claimEach(m, "resources_available.", of, hook, &into.ResourcesAvailable, v.ResourcesAvailable),
			m.text("sharing"+of, hook, &into.Sharing, v.Sharing),
			m.text("state"+of, hook, &into.State, v.State),
			claimValue(m, "comment"+of, hook, &into.Comment, v.Comment))
	}
	return errors.Join(errs...)
}

// text merges a text, unless it is "".
func (m *merger) text(thing, hook string, into *string, from string) error {
	if from == "" {
		return nil
	}
	err := m.claim(thing, hook, *into == from)
	if err == nil {
		*into = from
	}
	return err
}

func put[M ~map[K]V, K comparable, V any](m *M, key K, value V) {
	if *m == nil {
		*m = make(M)
	}
	(*m)[key] = value
}

func joinLines(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// foreignVnodes removes vnodes of other hosts from a hook's outcome and returns an error that names
// them: PBS believes a host only about its own vnodes.
func foreignVnodes(req *hostapi.Request, out *hostapi.Outcome) error {
	var foreign []string
	for name := range out.Vnodes {
		if !isOwnVnode(req, name) {
			foreign = append(foreign, name)
		}
	}
	if len(foreign) == 0 {
		return nil
	}
	slices.Sort(foreign)
	own := maps.Clone(out.Vnodes)
	for _, name := range foreign {
		delete(own, name)
	}
	out.Vnodes = own
	return hostapi.Errorf(hostapi.KindInternal, "vnodes of other hosts than %s: %s", req.Node,
		strings.Join(foreign, ", "))
}

// isOwnVnode reports whether a vnode is this host's. These are its natural vnode, those named
// host[n], and any that PBS itself lists for this host.
func isOwnVnode(req *hostapi.Request, name string) bool {
	if _, listed := req.VnodeList[name]; listed {
		return true
	}
	host, index, part := strings.Cut(name, "[")
	if host != req.Node {
		return false
	}
	return !part || strings.HasSuffix(index, "]") && len(index) > 1
}
