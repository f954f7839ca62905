package main

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/pbs"
)

// tellUnknown writes a line about what the job asks for and nobody here knows by name, which may be a slip of the pen. PBS refuses what its
// server does not have; but here a site's own hook may be who knows it, so the job runs.
func tellUnknown(w io.Writer, cfg *config.File, job *hostapi.Job) {
	asked := map[string]bool{}
	for name := range job.ResourceList {
		asked[name] = true
	}
	chunks, _ := pbs.ParseSelect(job.Schedselect)
	for _, chunk := range chunks {
		for name := range chunk.Resources {
			asked[name] = true
		}
	}
	unknown := slices.DeleteFunc(slices.Sorted(maps.Keys(asked)), cfg.KnowsResource)
	if len(unknown) > 0 {
		fmt.Fprintf(w, "hookhost: run: -l %s: neither PBS nor the configuration has such a resource\n", strings.Join(unknown, ", "))
	}
}

// twoSignals is what somebody writes who does not know that a comma ends a resource's value.
var twoSignals = regexp.MustCompile(`(?i)(^|,) *walltime_signal *=[^,]*,[^,=]*@`)

// hint adds to an error about -l what is likely to have been meant.
func hint(err error, resources []string) error {
	if slices.ContainsFunc(resources, twoSignals.MatchString) {
		return fmt.Errorf("%w; several signals of walltime_signal are joined with +: USR1@300+TERM@60", err)
	}
	return err
}
