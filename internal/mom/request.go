package mom

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/passwd"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/proc"
)

// longestName is PBS_MAXJOBNAME (openpbs src/include/pbs_ifl.h).
const longestName = 230

// Request is a job as a user of `hookhost run` requests it.
type Request struct {
	Resources []string // in the syntax of qsub's -l
	Name      string   // "" for the program's
	ID        string   // "" for the next number of this node
	User      string   // "" for the caller
	Command   []string // program and arguments
}

// Check returns the job, without its exec_vnode. It fails if the request cannot be a job.
func (r *Request) Check() (*hostapi.Job, error) {
	if r.ID != "" {
		if err := hostapi.CheckJobID(r.ID); err != nil {
			return nil, err
		}
	}
	if r.Command[0] == "" {
		return nil, errors.New("CMD: empty")
	}
	if len(r.Name) > longestName {
		return nil, fmt.Errorf("-N: %d bytes, and PBS allows %d", len(r.Name), longestName)
	}
	owner, err := ownerOf(r.User)
	if err != nil {
		return nil, err
	}
	request, err := pbs.ParseResourceList(r.Resources...)
	if err != nil {
		return nil, fmt.Errorf("-l: %w", hint(err, r.Resources))
	}
	delay, err := cutKillDelay(request.Job)
	if err != nil {
		return nil, fmt.Errorf("-l: %w", err)
	}
	job := &hostapi.Job{
		ID: r.ID, Name: r.Name, Owner: owner, RunCount: 1, MotherSuperior: true, Queue: "run",
		Schedselect: pbs.FormatSelect(request.Select), ResourceList: hostapi.Resources(request.Job), KillDelay: delay,
	}
	if job.Name == "" {
		name := r.Command[0][strings.LastIndexByte(r.Command[0], '/')+1:]
		job.Name = hostapi.Clip(name, longestName-len("..."))
	}
	return job, nil
}

// Spec completes the job, which runs on node, this host, and returns how to run it. env is the
// caller's environment.
func (r *Request) Spec(job *hostapi.Job, node string, env []string) (Spec, error) {
	procfs, err := kernfs.Open("/proc")
	if err != nil {
		return Spec{}, err
	}
	self, err := proc.Self(procfs)
	if err != nil {
		return Spec{}, err
	}
	chunks, err := pbs.ParseSelect(job.Schedselect)
	if err != nil {
		return Spec{}, err
	}
	job.ExecVnode = pbs.Place(node, chunks)
	spec := Spec{
		Job: job, Node: node, MoM: &self, Program: r.Command[0], Args: r.Command[1:], Env: env, TmpDir: TmpDir,
	}
	if job.Owner.UID != os.Geteuid() {
		if err := spec.runAs(job.Owner); err != nil {
			return Spec{}, err
		}
	}
	return spec, nil
}

// cutKillDelay removes kill_delay from the resources that a job requests. In PBS it is not a
// resource but an attribute of the job's queue, in seconds. A fraction of a second is rounded up.
// The result is nil without a kill_delay.
func cutKillDelay(asked map[string]string) (*int, error) {
	const name = "kill_delay"
	text, there := asked[name]
	if !there {
		return nil, nil
	}
	delete(asked, name)
	d, err := pbs.ParseDuration(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	seconds := int((d + time.Second - 1) / time.Second)
	return &seconds, nil
}

// ownerOf returns the user of that name; "" means the caller.
func ownerOf(name string) (hostapi.Owner, error) {
	u, err := passwd.LookupID(os.Getuid())
	if name != "" {
		u, err = passwd.Lookup(name)
	}
	if err != nil {
		return hostapi.Owner{}, err
	}
	uid, uerr := strconv.Atoi(u.Uid)
	gid, gerr := strconv.Atoi(u.Gid)
	return hostapi.Owner{User: u.Username, UID: uid, GID: gid}, errors.Join(uerr, gerr)
}

// Unknown returns the names of requested resources that are unknown, in order. A server refuses a
// job that requests one (openpbs src/server/resc_attr.c, PBSE_UNKRESC).
func Unknown(job *hostapi.Job, known func(name string) bool) []string {
	asked := map[string]bool{}
	for name := range job.ResourceList {
		asked[name] = true
	}
	chunks, _ := pbs.ParseSelect(job.Schedselect)
	for _, chunk := range chunks {
		for name := range chunk.Resources {
			asked[name] = true
		}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(asked)), known)
}

// twoSignals matches a mistake: a comma inside walltime_signal, which ends the value.
var twoSignals = regexp.MustCompile(`(?i)(^|,) *walltime_signal *=[^,]*,[^,=]*@`)

// hint adds the user's probable intention to an error about -l.
func hint(err error, resources []string) error {
	if slices.ContainsFunc(resources, twoSignals.MatchString) {
		return fmt.Errorf("%w; several signals of walltime_signal are joined with +: USR1@300+TERM@60", err)
	}
	return err
}
