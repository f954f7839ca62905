package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/openpbs"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/sister"
)

// momLogTail is how much of the end of pbs_mom's log is read. MoM has just written the lines, a
// hundred bytes for each host.
const momLogTail = 4 << 20

var errNotLogged = errors.New("pbs_mom has logged no usage of it ($logevent without 0x100?)")

// momUsage returns the usage that hosts of a job have told this host's pbs_mom at the job's end:
// one answer for each host. MoM's events have this host's part alone, so MoM's log is read.
func (b *backend) momUsage(rec *jobstate.Record, hosts []string) map[string]sister.Usage {
	usage := make(map[string]sister.Usage, len(hosts))
	totals, err := b.momTotals(rec)
	for _, name := range hosts {
		u, told := totalOf(totals, name)
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

// totalOf finds what MoM has logged last of a host, with or without its domain.
func totalOf(totals []openpbs.HostTotal, name string) (openpbs.HostTotal, bool) {
	for _, u := range slices.Backward(totals) {
		if pbs.SameHost(u.Host, name) {
			return u, true
		}
	}
	return openpbs.HostTotal{}, false
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

// momTotals reads the log of the job's pbs_mom: mom_logs/YYYYMMDD in its home, a file for each day.
func (b *backend) momTotals(rec *jobstate.Record) ([]openpbs.HostTotal, error) {
	home := rec.MoMHome
	if home == "" {
		home = b.configuredHome()
	}
	if !filepath.IsAbs(home) {
		return nil, fmt.Errorf("read the log of pbs_mom: its home is not known: %q", home)
	}
	now := time.Now()
	var log []byte
	for _, day := range []time.Time{now.Add(-time.Minute), now} { // MoM may have written right before midnight
		if day.Day() == now.Day() && !day.Equal(now) {
			continue
		}
		text, err := tail(filepath.Join(home, "mom_logs", day.Format("20060102")), momLogTail)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read the log of pbs_mom: %w", err)
		}
		log = append(log, text...)
	}
	return openpbs.HostTotals(log, rec.Job.ID, rec.Begun.Local()), nil
}

// tail returns the last bytes of a regular file.
func tail(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	return io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-most), most))
}
