package main

import (
	"context"
	"errors"
	"slices"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/topology"
)

// regrant is a job's way from one grant to another, which is nil where nothing is to change. On the
// way no other job is given what it has not let go of, nor what it is to get. A hook that dies in
// between leaves it with what it had, and the rest withheld, until the event is repeated or the job
// ends.
//
// The grant on the cgroup is written under the tree's lock. Hook devices changes it when it puts a
// filter in force, and at a startup that may be at any moment.
type regrant struct{ had, gets *inventory.Grant }

func newRegrant(had, gets *inventory.Grant) regrant {
	if gets == nil && had != nil {
		gets = &inventory.Grant{Devices: []topology.Device{}}
	}
	if had != nil && sameIDs(had.Devices, gets.Devices) && len(had.Coming) == 0 &&
		slices.Equal(had.Blocks, gets.Blocks) {
		gets = nil
	}
	return regrant{had, gets}
}

func sameIDs(a, b []topology.Device) bool {
	return slices.EqualFunc(a, b, func(d, e topology.Device) bool { return d.ID == e.ID })
}

// begin keeps for the job what it gets.
func (r regrant) begin(ctx context.Context, j *cgroup.Job, lock *treeLock) error {
	return r.rewrite(ctx, j, lock, func(*inventory.Grant) *inventory.Grant { return inTransit(r.had, r.gets) })
}

// finish gives the job what it is to get, and takes from it what it gives up. The latter is nobody
// else's before hook devices has taken it out of the filter.
func (r regrant) finish(ctx context.Context, j *cgroup.Job, lock *treeLock) error {
	return r.rewrite(ctx, j, lock, func(now *inventory.Grant) *inventory.Grant {
		g := *r.gets
		if now != nil {
			g.Leaving = without(slices.Concat(now.Devices, now.Leaving), g.Devices)
		}
		return &g
	})
}

// undo gives it what it had.
func (r regrant) undo(ctx context.Context, j *cgroup.Job, lock *treeLock) error {
	return r.rewrite(ctx, j, lock, func(now *inventory.Grant) *inventory.Grant {
		if now == nil { // begin has not come to it
			return nil
		}
		g := inventory.Grant{Devices: []topology.Device{}}
		if r.had != nil {
			g = *r.had
		}
		// A device that finish has given it may be in the filter by now. A device that it had given
		// up before may not be any more.
		g.Leaving = without(slices.Concat(now.Devices, now.Leaving), g.Devices)
		return &g
	})
}

// rewrite has change say what is to stand on the cgroup in place of what stands there; nil leaves
// it.
func (r regrant) rewrite(ctx context.Context, j *cgroup.Job, lock *treeLock,
	change func(now *inventory.Grant) *inventory.Grant) error {
	if r.gets == nil {
		return nil
	}
	if err := lock.again(ctx); err != nil {
		return err
	}
	now, err := inventory.GrantOf(j)
	if err == nil {
		if g := change(now); g != nil {
			err = g.Mark(j)
		}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, cgroup.ErrNotFound): // it ends at this moment
		return hostapi.Errorf(hostapi.KindBusy, "resize job %s: %w", j.ID(), err)
	}
	return hostapi.Errorf(markKind(err), "resize job %s: %w", j.ID(), err)
}

// inTransit returns the grant during a resize: the old devices (nil: none), and the new ones as
// Coming. Coming devices are not in the filter, whoever puts that in force meanwhile.
func inTransit(had, gets *inventory.Grant) *inventory.Grant {
	u := inventory.Grant{Devices: []topology.Device{}}
	if had != nil {
		u = *had
	}
	u.Coming = without(gets.Devices, u.Devices)
	u.Blocks = slices.Clip(u.Blocks)
	for _, b := range gets.Blocks {
		if !slices.Contains(u.Blocks, b) {
			u.Blocks = append(u.Blocks, b)
		}
	}
	return &u
}

// without returns those of list that are not in others.
func without(list, others []topology.Device) []topology.Device {
	return slices.DeleteFunc(slices.Clone(list), func(d topology.Device) bool {
		return slices.ContainsFunc(others, func(e topology.Device) bool { return e.ID == d.ID })
	})
}
