package daemon

import (
	"errors"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/host"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/openpbs"
	"github.com/hookhost/hookhost/internal/pbs"
)

var errNotLogged = errors.New("pbs_mom has logged no usage of it ($logevent without 0x100?)")

// sisterUsage implements host.Options.SisterUsage. MoM's events have only this host's part of the
// usage. The mother superior's MoM logs what each sister reported at the end of the job, so this
// reads the log.
func (m *pbsMoM) sisterUsage(rec *jobstate.Record, hosts []string) map[string]host.SisterUsage {
	told := make(map[string]host.SisterUsage, len(hosts))
	home := rec.MoMHome
	if home == "" {
		home = m.conf.momHome()
	}
	totals, err := openpbs.ReadTotals(home, rec.Job.ID, rec.Begun)
	for _, name := range hosts {
		u, logged := totals.Of(name)
		switch {
		case logged:
			seconds, mem, share := u.CPUT.Seconds(), int64(u.Mem), shareOn(rec.Job, name)
			usage := &hostapi.HostUsage{
				NCPUs: share.NCPUs, CPUTSeconds: &seconds, MemBytes: &mem, MemSource: "as its pbs_mom told",
			}
			if share.Mem != nil && *share.Mem > 0 {
				usage.MemLimitBytes = new(int64(*share.Mem))
			}
			told[name] = host.SisterUsage{Usage: usage}
		case err != nil:
			told[name] = host.SisterUsage{Err: err}
		default:
			told[name] = host.SisterUsage{Err: errNotLogged}
		}
	}
	return told
}

// shareOn returns what exec_vnode gives a job on a host, or nothing if it does not say.
func shareOn(job *hostapi.Job, name string) pbs.HostShare {
	chunks, err := pbs.JobChunks(job.ExecVnode, job.ExecHost2)
	if err != nil {
		return pbs.HostShare{}
	}
	share, err := pbs.OnHost(chunks, name)
	if err != nil {
		return pbs.HostShare{}
	}
	return share
}
