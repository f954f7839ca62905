package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// tmrshPrinter stands in for pbs_tmrsh: a script that prints its arguments, each in brackets.
const tmrshPrinter = `#!/bin/sh
for word; do printf '[%s]' "$word"; done
exit 7
`

// remshCaller returns how a job's program calls hookhost-remsh. env comes after what PBS sets.
func remshCaller(t *testing.T) func(env []string, args ...string) result {
	t.Helper()
	dir := t.TempDir()
	must.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	for name, text := range map[string]string{"bin/pbs_tmrsh": tmrshPrinter, "pbs.conf": "PBS_EXEC=" + dir + "\n",
		"nodes": "n1.site\nn2.site\nn2.site\nn3\n"} {
		must.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	return func(env []string, args ...string) result {
		t.Helper()
		cmd := exec.Command(filepath.Join(built, "hookhost-remsh"), args...)
		cmd.Env = append([]string{"PATH=/usr/bin:/bin", "PBS_CONF_FILE=" + dir + "/pbs.conf",
			"PBS_NODEFILE=" + dir + "/nodes", "PBS_JOBID=7.site", "PBS_JOBCOOKIE=x", "HOOKHOST_CONFIG=/nonexistent"},
			env...)
		return (&node{t: t}).finish(cmd)
	}
}

func TestRemshTakesTheWordsOfLaunchers(t *testing.T) {
	remsh := remshCaller(t)
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"Open MPI": {[]string{"n2", " orted", "-mca", "ess", `"env"`, "-mca", "orte_hnp_uri", `"1.0;tcp://10.0.0.1:4"`},
			`[n2.site][/bin/sh][-c][ orted -mca ess "env" -mca orte_hnp_uri "1.0;tcp://10.0.0.1:4"]`},
		"Open MPI with a user and a port": {[]string{"u@n2", "-p", "2222", "orted", "-mca"},
			"[-l][u][n2.site][/bin/sh][-c][orted -mca]"},
		"Open MPI with agent arguments": {[]string{"-q", "n2", "orted"}, "[n2.site][/bin/sh][-c][orted]"},
		"Hydra": {[]string{"-x", "n2", `"/usr/bin/hydra_pmi_proxy"`, "--control-port", "n1:3", "--proxy-id", "1"},
			`[n2.site][/bin/sh][-c]["/usr/bin/hydra_pmi_proxy" --control-port n1:3 --proxy-id 1]`},
		"Hydra with a user":  {[]string{"-X", "u@n2", "p"}, "[-l][u][n2.site][/bin/sh][-c][p]"},
		"rsh":                {[]string{"n2", "-n", "-l", "u", "a", "-n"}, "[-l][u][n2.site][/bin/sh][-c][a -n]"},
		"rsh, options first": {[]string{"-n", "-l", "u", "n2", "a", "b"}, "[-l][u][n2.site][/bin/sh][-c][a b]"},
		"letters together":   {[]string{"-nxlu", "-p22", "-oA=b", "-i", "f", "n3", "a"}, "[-l][u][n3][/bin/sh][-c][a]"},
		"options that do nothing": {[]string{"-f", "-t", "-T", "-v", "-o", "A=b", "-o", "C=d", "n3", "a"},
			"[n3][/bin/sh][-c][a]"},
		"a user with an at sign":   {[]string{"u@site@n3", "a"}, "[-l][u@site][n3][/bin/sh][-c][a]"},
		"an option of the command": {[]string{"n3", "-z", "-l"}, "[n3][/bin/sh][-c][-z -l]"},
		"a longer name":            {[]string{"n3.site", "a"}, "[n3][/bin/sh][-c][a]"},
		"a name of no node":        {[]string{"n4", "a"}, "[n4][/bin/sh][-c][a]"},
		"an address":               {[]string{"10.0.0.2", "a"}, "[10.0.0.2][/bin/sh][-c][a]"},
		"what a shell reads": {[]string{"n3", "echo $HOME;", "'a  b'", "\n"},
			"[n3][/bin/sh][-c][echo $HOME; 'a  b' \n]"},
	} {
		if r := remsh(nil, tt.args...); r.status != 7 || r.stdout != tt.want || r.stderr != "" {
			t.Errorf("%s: %+v, want %s", name, r, tt.want)
		}
	}
	// Open MPI words its line for the user's login shell.
	for login, want := range map[string]string{"/bin/tcsh": "/bin/tcsh", "/usr/bin/csh": "/usr/bin/csh",
		"/bin/bash": "/bin/sh", "/sbin/nologin": "/bin/sh"} {
		if r := remsh([]string{"PBS_O_SHELL=" + login}, "n3", "a"); r.stdout != "[n3]["+want+"][-c][a]" {
			t.Errorf("a user of %s: %+v", login, r)
		}
	}
}

func TestRemshThatCannotStartTheCommandSaysWhyInOneLine(t *testing.T) {
	remsh := remshCaller(t)
	for name, tt := range map[string]struct {
		env  []string
		args string
		want string
	}{
		"no host":                 {nil, "-n", "no host (see 'hookhost remsh --help')"},
		"no command":              {nil, "n2", "host n2: no command (see 'hookhost remsh --help')"},
		"no command but options":  {nil, "n2 -n -l u", "host n2: no command (see 'hookhost remsh --help')"},
		"an unknown option":       {nil, "-z n2 a", "unknown shorthand flag: 'z' in -z (see 'hookhost remsh --help')"},
		"an option without value": {nil, "-l", "flag needs an argument: 'l' in -l (see 'hookhost remsh --help')"},
		"no task manager": {[]string{"PBS_JOBCOOKIE="}, "n2 a",
			"PBS_JOBCOOKIE is not set, so PBS's task manager cannot be asked: submit the job with qsub, and call " +
				"this from its script"},
		"no pbs_tmrsh": {[]string{"PBS_CONF_FILE=/nonexistent"}, "n2 a",
			"exec /opt/pbs/bin/pbs_tmrsh: no such file or directory: pbs.conf tells where PBS is, by PBS_EXEC"},
	} {
		if name == "no pbs_tmrsh" && exists("/opt/pbs") {
			continue
		}
		r := remsh(tt.env, strings.Fields(tt.args)...)
		if want := "hookhost: remsh: " + tt.want + "\n"; r.status != 255 || r.stdout != "" || r.stderr != want {
			t.Errorf("%s: %+v, want %q", name, r, want)
		}
	}
}
