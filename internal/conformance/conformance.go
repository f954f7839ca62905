// Package conformance tests a hook's program against the contract of hostapi. internal/plugin
// starts and calls the program, as in the daemon. The events are those of jobs that do not exist.
package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/passwd"
	"github.com/hookhost/hookhost/internal/plugin"
)

// Hook is a hook that takes part in a test.
type Hook struct {
	Program string // the path of the program
	Config  []byte // its configuration file; nil if it has none
}

// Options say what to test, and how.
type Options struct {
	Hook
	Job   []byte        // JSON of a Job whose keys replace those of the job in the events; nil changes nothing
	After []Hook        // hooks that get each event before it
	Alarm time.Duration // for a start and for an event, in whole seconds
	Node  string        // the name of this host in the events

	// Dir is an empty directory with a short path: it is for sockets, and for files of the hook.
	Dir string
}

// largest is the text that the largest events of the test have, in bytes. An event from outside has
// at most hostapi.RequestLimit, and the hook's state is added to it.
const largest = hostapi.RequestLimit + hostapi.MaxState

// test is one test of a program.
type test struct {
	Options
	report   *Report
	registry *plugin.Registry
	live     liveJobs
	log      log
	jobs     int // how many jobs have begun

	companions []*companion
}

// Run tests a program. It needs sleep(1). The error says why nothing could be tested. What is wrong
// with the program is in the report.
//
// The program runs as this process's user, and does what it would do for a job. At its start, its
// list of live jobs is empty. So a program that runs as root may remove what belongs to real jobs.
func Run(ctx context.Context, o Options) (*Report, error) {
	program, err := filepath.Abs(o.Program)
	if err != nil {
		return nil, err
	}
	o.Program = program
	t := &test{Options: o, live: liveJobs{jobs: map[string]hostapi.Job{}}}
	t.report = &Report{Hook: hookName(program), Program: program}
	if t.registry, err = t.register("hooks.d", o.Config); err != nil {
		return nil, err
	}
	if _, err := t.newJob("1"); err != nil {
		return nil, err
	}
	stop, err := t.startCompanions(ctx)
	defer stop()
	if err != nil {
		return nil, err
	}
	if err := t.all(ctx); err != nil {
		return nil, err
	}
	lines, cut := t.log.lines()
	if cut > 0 {
		c := t.report.check("log")
		c.note(fmt.Sprintf("a line of %d bytes: hookhost cuts lines at 4096", cut))
		c.done()
	}
	if t.report.Passed = t.report.Count(OK) == len(t.report.Checks); !t.report.Passed {
		t.report.Log = lines
	}
	return t.report, nil
}

// all makes the checks. If the program does not start, there is nothing else to check.
func (t *test) all(ctx context.Context) error {
	for _, name := range []string{byHand, start, signals, lifeline, garbage} { // in this order
		t.report.check(name)
	}
	t.startByHand(ctx)
	if !t.startAsHost(ctx) {
		return nil
	}
	if err := t.readGarbage(ctx); err != nil {
		return err
	}
	for _, pass := range []struct {
		do   manner
		size int // of the text of a later version; 0 for none
	}{{twice, 0}, {killed, 0}, {once("with an unknown key"), 1}, {once("in 9 MiB"), largest}} {
		if err := t.run(ctx, pass.do, pass.size); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

func (t *test) alarm() time.Duration { return t.Alarm.Round(time.Second) }

// hookName returns a name for the hook of that program, as an administrator would choose it.
func hookName(program string) string {
	name := strings.TrimSuffix(filepath.Base(program), filepath.Ext(program))
	name = strings.TrimLeft(notOfNames.ReplaceAllString(name, "_"), "_.-0123456789")
	if name == "" || strings.HasPrefix(name, "PBS") || len(name) > 60 {
		return "hook"
	}
	return name
}

var notOfNames = regexp.MustCompile(`[^A-Za-z0-9_.-]`)

// register registers the hook in a directory below Dir. As in the daemon, its program is a copy
// elsewhere.
func (t *test) register(dir string, config []byte) (*plugin.Registry, error) {
	settings := map[string]string{}
	for name, sub := range map[string]string{"state_dir": "state", "run_dir": "run", "aux_dir": "aux"} {
		settings[name] = filepath.Join(t.Dir, sub)
		if err := os.MkdirAll(settings[name], 0o711); err != nil {
			return nil, err
		}
	}
	r := &plugin.Registry{
		Dir: filepath.Join(t.Dir, dir), ProgramDir: filepath.Join(t.Dir, dir, "programs"), Node: t.Node,
		Settings: settings, AllowUnsafePaths: true,
	}
	file, err := os.Open(t.Program)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	err = errors.Join(r.Create(t.report.Hook), r.Import(t.report.Hook, plugin.ContentProgram, file),
		r.Set(t.report.Hook, fmt.Sprintf("alarm=%d", int(t.alarm().Seconds()))))
	if config != nil && err == nil {
		err = r.Import(t.report.Hook, plugin.ContentConfig, bytes.NewReader(config))
	}
	return r, err
}

// nextJob returns the next job of the test.
func (t *test) nextJob() (hostapi.Job, error) {
	t.jobs++
	return t.newJob(fmt.Sprint(t.jobs))
}

// newJob returns a job of this process's user, with the keys of Job.
func (t *test) newJob(number string) (hostapi.Job, error) {
	owner := strconv.Itoa(os.Getuid())
	if u, err := passwd.LookupID(os.Getuid()); err == nil {
		owner = u.Username
	}
	job := map[string]any{
		"id": number + ".hooktest", "name": "hooktest", "queue": "workq", "server": "hooktest",
		"owner":       map[string]any{"user": owner, "uid": os.Getuid(), "gid": os.Getgid()},
		"exec_vnode":  "(" + t.Node + ":ncpus=1:mem=65536kb)",
		"exec_host2":  t.Node + ":15002/0",
		"schedselect": "1:ncpus=1:mem=64mb",
		"run_count":   1, "run_version": 1,
		"resource_list": map[string]string{
			"ncpus": "1", "mem": "64mb", "nodect": "1", "place": "free", "walltime": "01:00:00",
		},
	}
	if len(t.Job) > 0 {
		var given map[string]any
		if err := json.Unmarshal(t.Job, &given); err != nil {
			return hostapi.Job{}, fmt.Errorf("job: %w", err)
		}
		delete(given, "id") // several jobs live during a test
		maps.Copy(job, given)
	}
	text, err := json.Marshal(map[string]any{"job": job})
	if err != nil {
		return hostapi.Job{}, err
	}
	req, err := hostapi.DecodeRequest(string(hostapi.EventBegin), bytes.NewReader(text), 0)
	if err != nil {
		return hostapi.Job{}, err
	}
	return *req.Job, nil
}
