package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/internal/must"
)

// TestRemshArguments has the arguments that launchers and people call a remote shell with.
func TestRemshArguments(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want remshArgs
	}{
		{"Open MPI", []string{"n2", " orted", "-mca", "ess", `"env"`, "-mca", "orte_hnp_uri", `"1.0;tcp://10.0.0.1:4"`},
			remshArgs{host: "n2", command: []string{" orted", "-mca", "ess", `"env"`, "-mca", "orte_hnp_uri",
				`"1.0;tcp://10.0.0.1:4"`}}},
		{"Open MPI with a user and a port", []string{"u@n2", "-p", "2222", "orted", "-mca"},
			remshArgs{host: "n2", user: "u", options: []string{"-p", "2222"}, command: []string{"orted", "-mca"}}},
		{"Open MPI with agent arguments", []string{"-q", "n2", "orted"},
			remshArgs{host: "n2", options: []string{"-q"}, command: []string{"orted"}}},
		{"Open MPI's probe", []string{"n2", "echo $SHELL"}, remshArgs{host: "n2", command: []string{"echo $SHELL"}}},
		{"Hydra", []string{"-x", "n2", `"/usr/bin/hydra_pmi_proxy"`, "--control-port", "n1:3", "--proxy-id", "1"},
			remshArgs{host: "n2", options: []string{"-x"},
				command: []string{`"/usr/bin/hydra_pmi_proxy"`, "--control-port", "n1:3", "--proxy-id", "1"}}},
		{"Hydra with a user", []string{"-X", "u@n2", "p"},
			remshArgs{host: "n2", user: "u", options: []string{"-X"}, command: []string{"p"}}},
		{"pbs_remsh", []string{"-j", "7.s", "-r", "ssh -q", "n2", "-n", "-l", "u", "a", "-n"},
			remshArgs{host: "n2", user: "u", job: "7.s", rsh: "ssh -q", noStdin: true, command: []string{"a", "-n"}}},
		{"pbs_tmrsh", []string{"-n", "-l", "u", "n2", "a", "b"},
			remshArgs{host: "n2", user: "u", noStdin: true, command: []string{"a", "b"}}},
		{"letters together, values with theirs", []string{"-nxlu", "-p22", "-oA=b", "-i", "f", "n2", "a"},
			remshArgs{host: "n2", user: "u", noStdin: true, options: []string{"-x", "-p", "22", "-o", "A=b", "-i", "f"},
				command: []string{"a"}}},
		{"letters that are nothing here", []string{"-f", "-t", "-T", "-v", "n2", "a"},
			remshArgs{host: "n2", noStdin: true, options: []string{"-v"}, command: []string{"a"}}},
		{"a user with an at sign", []string{"u@site@n2", "a"},
			remshArgs{host: "n2", user: "u@site", command: []string{"a"}}},
		{"end of options", []string{"--", "n2", "--", "-n"}, remshArgs{host: "n2", command: []string{"-n"}}},
		{"an option that is the command's", []string{"n2", "-z"}, remshArgs{host: "n2", command: []string{"-z"}}},
		{"own options", []string{"--socket", "/s", "--socket=/t", "n2", "a"},
			remshArgs{host: "n2", socket: "/t", command: []string{"a"}}},
		{"the other end", []string{"--remote", "eyJ9"}, remshArgs{remote: "eyJ9"}},
		{"version", []string{"--version"}, remshArgs{version: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseRemsh(tt.args)
			must.NoError(t, err)
			must.Equal(t, "", &tt.want, got, cmp.AllowUnexported(remshArgs{}))
		})
	}
	for _, args := range []string{"", "-n", "n2", "n2 -n", "-z n2 a", "--frobnicate n2 a", "-l", "n2 -l", "-oA=b",
		"u@ a", "-nz n2 a", "--socket", "u@-oX a"} {
		if got, err := parseRemsh(strings.Fields(args)); !errors.Is(err, errUsage) {
			t.Errorf("%q: %+v, %v, want a usage error", args, got, err)
		}
	}
}
