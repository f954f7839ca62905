package mom

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
)

// prepare creates the job's files before its launch, and returns the launch event.
func (w *walk) prepare() (*hostapi.Request, error) {
	env := parseEnv(w.spec.Env)
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	set, err := jobEnv(&w.job, w.spec.Node, dir, env)
	if err != nil {
		return nil, err
	}
	if w.spec.AuxDir != "" {
		if set["PBS_NODEFILE"], err = w.makeNodefile(); err != nil {
			return nil, err
		}
	}
	if w.spec.TmpDir != "" {
		if set["TMPDIR"], err = w.makeTmpDir(); err != nil {
			return nil, err
		}
	}
	if w.spec.Credential != nil {
		set["USER"], set["LOGNAME"] = w.job.Owner.User, w.job.Owner.User
	}
	maps.Copy(env, set)
	program := w.spec.Program
	if path, err := findProgram(program, env["PATH"]); err == nil {
		program = path
	}
	return &hostapi.Request{Event: hostapi.EventLaunch, Progname: program, Argv: slices.Clone(w.spec.Args), Env: env},
		nil
}

// launch makes the stub become the program, as changed by the hooks.
func (w *walk) launch(s *stub, req *hostapi.Request, out *hostapi.Outcome) error {
	name, argv0, args, env := req.Progname, w.spec.Program, req.Argv, maps.Clone(req.Env)
	if out.Progname != nil {
		name, argv0 = *out.Progname, *out.Progname
	}
	if out.Argv != nil {
		args = out.Argv
	}
	for _, unset := range out.UnsetEnv {
		delete(env, unset)
	}
	maps.Copy(env, out.SetEnv)
	path, err := findProgram(name, env["PATH"])
	if err != nil {
		return err
	}
	o := &order{
		Path: path, Args: append([]string{argv0}, args...), Env: formatEnv(env),
		Umask: w.spec.Umask, Credential: w.spec.Credential,
	}
	return s.execute(o)
}

// findProgram finds a program as a shell does: directly if it has a slash, else in the directories
// of path. It fails with *ExecError. The kernel decides whether the job's user may run it.
func findProgram(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	cause := unix.ENOENT
	for _, entry := range filepath.SplitList(path) {
		candidate := filepath.Join(entry, name)
		if !strings.Contains(candidate, "/") {
			candidate = "./" + name
		}
		info, err := os.Stat(candidate)
		switch {
		case err != nil || info.IsDir():
		case info.Mode()&0o111 == 0:
			cause = unix.EACCES
		default:
			return candidate, nil
		}
	}
	return "", &ExecError{Path: name, Err: cause}
}

// parseEnv returns the variables of a list. If one occurs twice, the last counts, as in os/exec.
func parseEnv(list []string) map[string]string {
	env := make(map[string]string, len(list))
	for _, entry := range list {
		if name, value, ok := strings.Cut(entry, "="); ok && name != "" {
			env[name] = value
		}
	}
	return env
}

func formatEnv(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}
