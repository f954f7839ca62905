package main

import (
	"errors"
	"slices"
	"strconv"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
)

var (
	errCount = errors.New("not a whole number")
	errMany  = errors.New("too large")
)

// countOf returns the count of the named resource, or 0.
func countOf(resources map[string]string, name string) (int, error) {
	value, ok := resources[name]
	if !ok {
		return 0, nil
	}
	n, err := parseCount(value)
	if err != nil {
		return 0, pbs.ResourceError(name, value, err)
	}
	return n, nil
}

// countOfJob returns the count of a resource that appears only in the job's own list (-l fpga=1).
// PBS leaves resources out of exec_vnode that its scheduler does not count. With several hosts
// nothing says how many each one gets, so countOfJob fails.
func countOfJob(list hostapi.Resources, chunks []pbs.VnodeChunk, name string) (int, error) {
	if slices.ContainsFunc(chunks, func(c pbs.VnodeChunk) bool { return c.Resources[name] != "" }) {
		return 0, nil
	}
	n, err := countOf(list, name)
	elsewhere := func(c pbs.VnodeChunk) bool { return c.Host != chunks[0].Host }
	if err == nil && n > 0 && slices.ContainsFunc(chunks, elsewhere) {
		err = errors.New("exec_vnode does not say how much of it each host has: ask for it in select")
		err = pbs.ResourceError(name, list[name], err)
	}
	return n, err
}

func parseCount(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, errMany
	case err != nil:
		return 0, errCount
	}
	return int(n), nil
}
