package host

import (
	"errors"
	"slices"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/usage"
)

// SisterUsage is the usage of a job on one of its sisters, or why it is unknown.
type SisterUsage struct {
	Usage *hostapi.HostUsage
	Err   error
}

// errLater explains why the usage of a sister is missing from the report of a live job.
var errLater = errors.New("pbs_mom tells when the job ends")

// sisterUsage returns the job's usage on its sisters.
func (h *Host) sisterUsage(rec *jobstate.Record) map[string]SisterUsage {
	hosts := sistersOf(rec, h.opt.Node)
	if len(hosts) == 0 {
		return nil
	}
	return h.opt.SisterUsage(rec, hosts)
}

// noteSisters records the job's usage on its sisters. If a sister is not in told, its figures are
// missing, because its MoM reports at the end of the job.
func noteSisters(rec *jobstate.Record, node string, told map[string]SisterUsage) {
	for _, host := range sistersOf(rec, node) {
		u, is := told[host]
		switch {
		case !is:
			put(&rec.Missing, host, errLater.Error())
		case u.Err != nil:
			put(&rec.Missing, host, hostapi.OneLine(u.Err.Error()))
		default:
			put(&rec.Hosts, host, usage.Fold(rec.Hosts[host], u.Usage))
			delete(rec.Missing, host)
		}
	}
}

// sistersOf returns the other hosts of a job of pbs_mom, in the order of its exec_vnode. It returns
// none unless this host's MoM is the mother superior.
func sistersOf(rec *jobstate.Record, node string) []string {
	if !underPBS(rec) || !rec.Job.MotherSuperior {
		return nil
	}
	hosts, err := pbs.Hosts(rec.Job.ExecVnode, rec.Job.ExecHost2)
	if err != nil || len(hosts) == 0 || !pbs.SameHost(hosts[0], node) {
		return nil
	}
	return slices.DeleteFunc(hosts, func(name string) bool { return pbs.SameHost(name, node) })
}
