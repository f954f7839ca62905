package openpbs

import "strings"

// builtIn are resources of PBS's own that a job can have used
// (src/lib/Libattr/master_resc_def_all.xml).
var builtIn = map[string]bool{
	"cpupercent": true, "cput": true, "energy": true, "file": true, "mem": true, "ncpus": true,
	"pcput": true, "pmem": true, "pvmem": true, "vmem": true, "walltime": true,
}

// DiagMessages is the custom resource that has what went wrong in a job: a JSON object, by host.
const DiagMessages = "diag_messages"

// Custom are the custom resources that a server knows, by name. The server takes no resources_used
// of a job at all where MoM sends it one that it does not know (src/server/req_jobobit.c).
type Custom map[string]bool

// ParseResourcedef reads mom_priv/hooks/resourcedef, which the server sends to each MoM whenever a
// custom resource is made or deleted. Each resource has a line "NAME type=TYPE flag=FLAGS"
// (src/server/setup_resc.c). Other lines, and comments, are passed over.
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

// Knows reports whether the server takes resources_used.NAME of a job.
func (c Custom) Knows(name string) bool { return builtIn[name] || c[name] }
