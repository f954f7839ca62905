package main

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
)

// launch is a program that MoM is about to start, and what its engine needs to know.
type launch struct {
	image   image
	program string
	args    []string
	env     map[string]string
	binds   []config.Bind
	options []string
}

// command is what MoM starts instead: arguments of the engine's program. If env is not empty, it
// holds arguments of env(1), which changes the engine's environment alone. Other hooks may have set
// the same variables for the job, and two hooks cannot set one to different values.
type command struct {
	args []string
	env  []string
}

// engines has, for each engine, the images that it accepts and the way to run one.
var engines = map[string]struct {
	transports []string
	wants      string
	command    func(*launch) (*command, error)
}{
	config.Apptainer: {[]string{"", docker, "docker-archive", "oci-archive"},
		"a path, docker://NAME, docker-archive:PATH or oci-archive:PATH", apptainer},
	config.Podman: {[]string{docker, "docker-archive", "oci-archive"},
		"docker://NAME, docker-archive:PATH or oci-archive:PATH", podman},
	config.Enroot:       {[]string{""}, "a file that 'enroot import' has made", enroot},
	config.Charliecloud: {[]string{""}, "a directory or a SquashFS file", charliecloud},
}

// accepts returns an error if the engine cannot run the image. directory says what its path is.
func accepts(engine string, i image, directory bool) error {
	e := engines[engine]
	if !slices.Contains(e.transports, i.transport) || directory && (i.transport != "" || engine == config.Enroot) {
		return fmt.Errorf("%s runs %s", engine, e.wants)
	}
	return nil
}

// apptainer mounts /dev, where the job's device filter decides what can be opened. --nv and --rocm
// add the drivers' libraries.
func apptainer(l *launch) (*command, error) {
	args := []string{"exec"}
	if dir := l.env[workdir]; dir != "" {
		args = append(args, "--pwd", dir)
	}
	for _, b := range l.binds {
		args = append(args, "--bind", bindText(b, "ro"))
	}
	if l.env["CUDA_VISIBLE_DEVICES"] != "" {
		args = append(args, "--nv")
	}
	if l.env["ROCR_VISIBLE_DEVICES"] != "" {
		args = append(args, "--rocm")
	}
	return &command{args: slices.Concat(args, l.options, []string{l.image.String(), l.program}, l.args)}, nil
}

// podman has its images and its state in the job's TMPDIR. A container that is killed with its job
// would otherwise be an error for podman in the user's next jobs. For the same reason it must not
// find a session of systemd, whose cgroups are outside the job.
func podman(l *launch) (*command, error) {
	tmp := l.env["TMPDIR"]
	if !path.IsAbs(tmp) {
		return nil, fmt.Errorf("TMPDIR is %q: podman needs a directory for its state", tmp)
	}
	args := []string{"--root", tmp + "/.podman", "--runroot", tmp + "/.podman-run", "--cgroup-manager=cgroupfs", "run",
		"--rm", "--quiet", "--interactive", "--userns=keep-id", "--network=host", "--pid=host", "--log-driver=none",
		"--entrypoint="}
	if l.env["PBS_ENVIRONMENT"] == "PBS_INTERACTIVE" {
		args = append(args, "--tty")
	}
	if dir := l.env[workdir]; dir != "" {
		args = append(args, "--workdir="+dir)
	}
	for _, b := range l.binds {
		args = append(args, "--volume="+bindText(b, "ro"))
	}
	if device := l.env["HOOKHOST_CDI_DEVICE"]; device != "" {
		args = append(args, "--device="+device)
	}
	for _, name := range names(l.env) {
		args = append(args, "--env="+name)
	}
	return &command{args: slices.Concat(args, l.options, []string{l.image.String(), l.program}, l.args),
		env: []string{"-u", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR=" + tmp}}, nil
}

// enroot mounts a SquashFS file by itself, so no container has to be created and removed.
func enroot(l *launch) (*command, error) {
	args := []string{"start"}
	for _, b := range l.binds {
		args = append(args, "--mount", bindText(b, "rbind,ro,x-create=auto"))
	}
	for _, name := range names(l.env) {
		args = append(args, "--env", name)
	}
	c := &command{args: slices.Concat(args, l.options, []string{"--", l.image.name, l.program}, l.args)}
	if tmp := l.env["TMPDIR"]; tmp != "" {
		c.env = []string{"XDG_RUNTIME_DIR=" + tmp}
	}
	return c, nil
}

// charliecloud execs the program. It mounts /dev, and TMPDIR at /tmp.
func charliecloud(l *launch) (*command, error) {
	var args []string
	for _, b := range l.binds {
		switch {
		case b.Target == l.env["TMPDIR"]:
		case b.Source == b.Target && b.Target == "/home/"+l.env["USER"] && b.Target == l.env["HOME"]:
			args = append(args, "--home")
		default:
			args = append(args, "--bind="+bindText(b, ""))
		}
	}
	if dir := l.env[workdir]; dir != "" {
		args = append(args, "--cd="+dir)
	}
	return &command{args: slices.Concat(args, l.options, []string{l.image.name, "--", l.program}, l.args)}, nil
}

// workdir is the variable with the directory in which MoM starts the job's programs.
const workdir = "PBS_JOBDIR"

// bindText formats a bind with the engine's option for a read-only one.
func bindText(b config.Bind, readOnly string) string {
	text := b.Source + ":" + b.Target
	if b.ReadOnly && readOnly != "" {
		text += ":" + readOnly
	}
	return text
}

// names returns the variables that go into a container whose engine does not pass all of them on.
// PATH and the like are the image's.
func names(env map[string]string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(env)), func(name string) bool {
		return name == "PATH" || name == "LD_LIBRARY_PATH" || !config.IsVariable(name)
	})
}

// expand returns the binds of a job: its variables are replaced, and each target occurs once. A
// bind whose variable is not set is left out. So is the root directory, which would hide the image.
func expand(binds []config.Bind, env map[string]string) ([]config.Bind, error) {
	var list []config.Bind
	for _, b := range binds {
		source, set := expandPath(b.Source, env)
		target, also := expandPath(b.Target, env)
		if !set || !also || target == "/" {
			continue
		}
		e := config.Bind{Source: source, Target: target, ReadOnly: b.ReadOnly}
		if _, err := config.ParseBind(source + ":" + target); err != nil || !path.IsAbs(source) || !path.IsAbs(target) {
			return nil, hostapi.Errorf(hostapi.KindJob, "bind %s: %q cannot be mounted", b.Source, source+":"+target)
		}
		if !slices.ContainsFunc(list, func(o config.Bind) bool { return o.Target == target }) {
			list = append(list, e)
		}
	}
	return list, nil
}

var variable = regexp.MustCompile(`\$[A-Za-z_][A-Za-z0-9_]*`)

// expandPath replaces the variables in a path. set is false if one of them has no value.
func expandPath(text string, env map[string]string) (result string, set bool) {
	set = true
	result = variable.ReplaceAllStringFunc(text, func(name string) string {
		value := env[name[1:]]
		set = set && value != ""
		return value
	})
	return path.Clean(result), set
}
