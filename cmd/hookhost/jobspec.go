package main

import (
	"fmt"
	"os"
	"os/user"
	"regexp"
	"strconv"
	"syscall"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/mom"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/proc"
)

// spec completes the job, which runs on hosts, this one first, and says how to start its program.
func (c *cli) spec(o runOptions, job *hostapi.Job, hosts []string) (mom.Spec, error) {
	procfs, err := kernfs.Open("/proc")
	if err != nil {
		return mom.Spec{}, err
	}
	self, err := proc.Self(procfs)
	if err != nil {
		return mom.Spec{}, err
	}
	chunks, err := pbs.ParseSelect(job.Schedselect)
	if err != nil {
		return mom.Spec{}, err
	}
	job.ExecVnode = pbs.Place(hosts, chunks)
	spec := mom.Spec{
		Job: job, Node: hosts[0], MoM: &self, Program: o.command[0], Args: o.command[1:], Env: os.Environ(),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, AuxDir: c.auxDir(), TmpDir: tmpDir, Umask: &c.umask,
	}
	if job.Owner.UID != os.Geteuid() {
		u, err := user.LookupId(strconv.Itoa(job.Owner.UID))
		if err != nil {
			return mom.Spec{}, err
		}
		if spec.Credential, err = credential(u, job.Owner); err != nil {
			return mom.Spec{}, err
		}
		spec.Env = environmentOf(u, os.Environ())
	}
	return spec, nil
}

// passed are the variables of root's that another user's program gets: how to talk to the terminal
// and to a person, where programs are, and which node's daemon it is.
var passed = regexp.MustCompile(`^(TERM|COLORTERM|LANG|LANGUAGE|LC_[A-Z]+|TZ|PATH|HOOKHOST_[A-Z_]+)=`)

// environmentOf returns the environment of a program that runs as another user. The rest of root's
// is not the user's to read, nor is root's HOME the user's.
func environmentOf(u *user.User, roots []string) []string {
	env := []string{"HOME=" + u.HomeDir, "USER=" + u.Username, "LOGNAME=" + u.Username}
	for _, variable := range roots {
		if passed.MatchString(variable) {
			env = append(env, variable)
		}
	}
	return env
}

// credential makes the program run as the job's owner, with all of the owner's groups.
func credential(u *user.User, o hostapi.Owner) (*syscall.Credential, error) {
	ids, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("groups of user %s: %w", o.User, err)
	}
	cred := &syscall.Credential{Uid: uint32(o.UID), Gid: uint32(o.GID)}
	for _, id := range ids {
		gid, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("groups of user %s: %w", o.User, err)
		}
		cred.Groups = append(cred.Groups, uint32(gid))
	}
	return cred, nil
}
