package main

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

// checkChunks fails where a host would get no part of the job: what somebody who names it cannot mean.
func checkChunks(hosts []string, chunks []pbs.Chunk) error {
	n := 0
	for _, c := range chunks {
		n += c.Count
	}
	if n >= len(hosts) {
		return nil
	}
	return fmt.Errorf("--host %s: it gets none of %s: ask for one for each host, such as -l select=%d:ncpus=1", hosts[n], countOf(n, "chunk"), len(hosts))
}

func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// jobHosts returns the hosts of a job that runs here, on node: node itself where none was named. The first has to be this one: it is the job's mother
// superior, and `run` starts its program.
func jobHosts(named []string, node string) ([]string, error) {
	if len(named) == 0 {
		return []string{node}, nil
	}
	if !pbs.SameHost(named[0], node) {
		return nil, fmt.Errorf("run: --host %s: the first host has to be this one, which is %s: the job's program is started here", named[0], node)
	}
	return append([]string{node}, named[1:]...), nil
}
