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

// Hosts returns the hosts of a job in the order of its chunks, each once: the first is the mother
// superior's. The names are those of exec_host2 ("n1.cluster:15002/0*2+n2.cluster:15002/0") where
// the job has it, as vnodes may have any name. The names of the vnodes of exec_vnode are the second
// choice. A job with neither has no hosts. Hosts fails on texts that are not of these forms.
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

// execMoMs returns the pbs_mom of each chunk of exec_host2: HOST:PORT, or HOST.
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

// SameHost reports whether two names are one host's: they are equal, or one is the short form of
// the other. SameHost holds for n1 and n1.cluster, but not for n1.a and n1.b, nor for anything
// about an address that is not equal to it. No name is nobody's.
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
