package openpbs

import "strings"

// builtIn are PBS's own resources that a job can have used
// (src/lib/Libattr/master_resc_def_all.xml).
var builtIn = map[string]bool{
	"cpupercent": true, "cput": true, "energy": true, "file": true, "mem": true, "ncpus": true,
	"pcput": true, "pmem": true, "pvmem": true, "vmem": true, "walltime": true,
}

// The custom resources that hookhost's hook sets. Each is a JSON object with an entry for each of a
// job's hosts: its problems, and what the job used there (usage.HostEntry).
const (
	DiagMessages = "diag_messages"
	HostUsage    = "host_usage"
)

// HookhostState is the custom resource of vnodes with which a job asks for nodes on which hookhost
// works: see AddState.
const HookhostState = "hookhost"

// Custom are the custom resources that a server knows, by name. If MoM sends one that the server
// does not know, the server rejects all resources_used of the job (src/server/req_jobobit.c).
type Custom map[string]bool

// ParseResourcedef reads mom_priv/hooks/resourcedef, which the server sends to each MoM whenever a
// custom resource is created or deleted. Each resource has a line "NAME type=TYPE flag=FLAGS"
// (src/server/setup_resc.c). Other lines, and comments, are ignored.
func ParseResourcedef(text []byte) Custom {
	custom := Custom{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) > 0 && !strings.HasPrefix(words[0], "#") {
			custom[words[0]] = true
		}
	}
	return custom
}

// Knows reports whether the server accepts resources_used.NAME of a job.
func (c Custom) Knows(name string) bool { return builtIn[name] || c[name] }
