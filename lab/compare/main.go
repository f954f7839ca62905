// Command compare measures hookhost beside OpenPBS's own hook, Slurm and podman, in turns on one
// node of lab/openpbs. In a guest of lab/vm it measures hookhost beside systemd-run and podman. It
// writes docs/comparison.md with its plots.
//
//	compare [-rounds N]                 measures on a node, adds the run to docs/comparison.json
//	compare -guest SUITE [-rounds N]    measures in a guest, adds to docs/comparison-guest.json
//	compare -write                      writes the page from the figures alone, as the others do
//	compare -here [-rounds N]           measures the guest in which it runs, for -guest
//
// It runs as root in the root of the checkout, after `make all`. The lab is removed at the end, on
// SIGINT and SIGTERM too. Both files have the last two runs.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	rounds := flag.Int("rounds", 4, "turns of each engine")
	guest := flag.String("guest", "", "measure in a guest of this Debian suite")
	here := flag.Bool("here", false, "measure the guest in which this runs")
	write := flag.Bool("write", false, "write the page from the figures of earlier runs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	var err error
	switch {
	case *here:
		err = measureHere(ctx, *rounds)
	case *write:
		err = writePage("docs")
	case *guest != "":
		err = addRun(guestRuns, func() (run, error) { return measureInGuest(ctx, *guest, *rounds) })
	default:
		err = addRun(nodeRuns, func() (run, error) { return measure(ctx, *rounds) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// addRun measures, adds the run to the earlier ones in a file of docs, and writes the page.
func addRun(file string, measure func() (run, error)) error {
	file = filepath.Join("docs", file)
	r, err := measure()
	if err != nil {
		return err
	}
	runs, err := readRuns(file)
	if err != nil {
		return err
	}
	runs = append(runs, r)
	if err := writeRuns(file, runs[max(len(runs)-2, 0):]); err != nil {
		return err
	}
	return writePage("docs")
}
