package main

import (
	"errors"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/openpbs"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/sister"
)

var errNotLogged = errors.New("pbs_mom has logged no usage of it ($logevent without 0x100?)")

// momUsage returns the usage that hosts of a job have told this host's pbs_mom at the job's end:
// one answer for each host. MoM's events have this host's part alone, so MoM's log is read.
func (b *backend) momUsage(rec *jobstate.Record, hosts []string) map[string]sister.Usage {
	usage := make(map[string]sister.Usage, len(hosts))
	home := rec.MoMHome
	if home == "" {
		home = b.configuredHome()
	}
	totals, err := openpbs.ReadTotals(home, rec.Job.ID, rec.Begun)
	for _, name := range hosts {
		u, told := totals.Of(name)
		switch {
		case told:
			seconds, mem := u.CPUT.Seconds(), int64(u.Mem)
			usage[name] = sister.Usage{Usage: &hostapi.HostUsage{
				NCPUs: ncpusOn(rec.Job, name), CPUTSeconds: &seconds, MemBytes: &mem, MemSource: "as its pbs_mom told",
			}}
		case err != nil:
			usage[name] = sister.Usage{Err: err}
		default:
			usage[name] = sister.Usage{Err: errNotLogged}
		}
	}
	return usage
}

// ncpusOn returns how many cpus exec_vnode gives a job on a host, 0 where it does not tell.
func ncpusOn(job *hostapi.Job, name string) int {
	chunks, err := pbs.ParseExecVnode(job.ExecVnode)
	if err != nil {
		return 0
	}
	share, err := pbs.OnHost(chunks, name)
	if err != nil {
		return 0
	}
	return share.NCPUs
}
