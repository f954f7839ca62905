package mom

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/internal/pbs"
)

// splitHosts returns the hosts that --host names, several of one by comma, in order.
func splitHosts(given []string) ([]string, error) {
	var hosts []string
	for _, text := range given {
		for host := range strings.SplitSeq(text, ",") {
			host = strings.TrimSpace(host)
			if !pbs.IsHostName(host) {
				return nil, fmt.Errorf("--host %q: not a host name", host)
			}
			if i := slices.IndexFunc(hosts, func(h string) bool { return pbs.SameHost(h, host) }); i >= 0 {
				return nil, fmt.Errorf("--host %s: it is there already, as %s", host, hosts[i])
			}
			hosts = append(hosts, host)
		}
	}
	return hosts, nil
}

// checkChunks fails if a host would get no part of the job: nobody who names it can mean that.
func checkChunks(hosts []string, chunks []pbs.Chunk) error {
	n := 0
	for _, c := range chunks {
		n += c.Count
	}
	if n >= len(hosts) {
		return nil
	}
	chunk := "1 chunk"
	if n != 1 {
		chunk = fmt.Sprintf("%d chunks", n)
	}
	return fmt.Errorf("--host %s: it gets none of %s: ask for one for each host, such as -l select=%d:ncpus=1",
		hosts[n], chunk, len(hosts))
}

// On returns the hosts of a job that runs here, on node: node itself if the request names none. The
// first has to be this one, the job's mother superior: `run` starts its program.
func (r *Request) On(node string) ([]string, error) {
	if len(r.Hosts) == 0 {
		return []string{node}, nil
	}
	if !pbs.SameHost(r.Hosts[0], node) {
		const text = "--host %s: the first host has to be this one, which is %s: the job's program is started here"
		return nil, fmt.Errorf(text, r.Hosts[0], node)
	}
	return append([]string{node}, r.Hosts[1:]...), nil
}
