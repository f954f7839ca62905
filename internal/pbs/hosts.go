package pbs

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// HostName returns this host's name up to the first dot.
func HostName() (string, error) {
	name, err := os.Hostname()
	if err != nil {
		return "", err
	}
	name, _, _ = strings.Cut(name, ".")
	return name, nil
}

// Hosts returns the hosts of a job in the order of its chunks, each once. The first is the mother
// superior's. If the job has an exec_host2 ("n1.cluster:15002/0*2+n2.cluster:15002/0"), the names
// come from there, because vnodes may have any name. Otherwise they come from the vnodes in
// exec_vnode. A job with neither has no hosts. Hosts fails on texts of other forms.
func Hosts(execVnode, execHost2 string) ([]string, error) {
	var names []string
	switch {
	case execHost2 != "":
		moms, err := execMoMs(execHost2)
		if err != nil {
			return nil, err
		}
		for _, mom := range moms {
			host, _, _ := strings.Cut(mom, ":")
			names = append(names, host)
		}
	case execVnode != "":
		chunks, err := ParseExecVnode(execVnode)
		if err != nil {
			return nil, err
		}
		for _, c := range chunks {
			names = append(names, c.Host)
		}
	}
	return distinct(names), nil
}

// distinct returns each text once, in order.
func distinct(texts []string) []string {
	seen := make(map[string]bool, len(texts))
	return slices.DeleteFunc(texts, func(text string) bool {
		again := seen[text]
		seen[text] = true
		return again
	})
}

// execMoMs returns the pbs_mom of each chunk in exec_host2: HOST:PORT, or HOST.
func execMoMs(text string) ([]string, error) {
	if err := checkLength("exec_host2", text); err != nil {
		return nil, err
	}
	parts := strings.Split(text, "+")
	if len(parts) > maxChunks {
		return nil, fmt.Errorf("exec_host2 %s: more than %d parts", Shown(text), maxChunks)
	}
	for i, part := range parts {
		address, _, found := strings.Cut(part, "/")
		host, port, ported := strings.Cut(address, ":")
		if !found || !isVnode(host) || ported && !isDigits(port) {
			return nil, fmt.Errorf("exec_host2 part %s: want HOST:PORT/INDEX", Shown(part))
		}
		parts[i] = address
	}
	return parts, nil
}

// SameHost reports whether two names belong to one host: they are equal, or one is the short form
// of the other. n1 and n1.cluster are the same host, but n1.a and n1.b are not. An address only
// matches itself, and "" matches nothing.
func SameHost(a, b string) bool {
	if a == b {
		return a != ""
	}
	if len(a) > len(b) {
		a, b = b, a
	}
	if a == "" || strings.Contains(a, ".") || !strings.HasPrefix(b, a+".") {
		return false
	}
	_, err := netip.ParseAddr(b)
	return err != nil
}
