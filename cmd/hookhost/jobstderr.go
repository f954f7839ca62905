package main

import (
	"os/user"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/proc"
)

// tellOwner appends lines to the standard error of a job of pbs_mom, on its mother superior. MoM has
// no way to take them from a hook, and copies the file to where it belongs after epilogue.
func (b *backend) tellOwner(job *hostapi.Job, lines []string) error {
	path := job.StderrFile
	if job.JoinPath == "oe" {
		path = job.StdoutFile
	}
	if len(lines) == 0 || !job.MotherSuperior || path == "" {
		return nil
	}
	owner := job.Owner
	if rec := b.store.Get(job.ID); rec != nil {
		owner = rec.Job.Owner
	}
	if owner.UID < 0 || owner.GID < 0 {
		u, err := user.Lookup(owner.User)
		if err != nil {
			return err
		}
		if owner.UID, err = strconv.Atoi(u.Uid); err != nil {
			return err
		}
		if owner.GID, err = strconv.Atoi(u.Gid); err != nil {
			return err
		}
	}
	return proc.AppendAs(owner.UID, owner.GID, path, strings.Join(lines, "\n")+"\n")
}
