// Command compare measures hookhost beside OpenPBS's own hook, Slurm and podman, in turns on one
// node of lab/openpbs, and writes docs/comparison.md with its plots.
//
//	compare [-rounds N]      measures, adds the run to docs/comparison.json, writes the page
//	compare -write           writes the page from docs/comparison.json alone
//
// It runs as root in the root of the checkout, after `make all`. The lab is removed at the end, on
// SIGINT and SIGTERM too. docs/comparison.json has the last two runs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	rounds := flag.Int("rounds", 4, "turns of each engine")
	write := flag.Bool("write", false, "write the page from the figures of earlier runs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := compare(ctx, *rounds, *write); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func compare(ctx context.Context, rounds int, writeOnly bool) error {
	runs, err := readRuns("docs/comparison.json")
	if err != nil {
		return err
	}
	if !writeOnly {
		r, err := measure(ctx, rounds)
		if err != nil {
			return err
		}
		runs = append(runs, r)
		runs = runs[max(len(runs)-2, 0):]
		if err := writeRuns("docs/comparison.json", runs); err != nil {
			return err
		}
	}
	if len(runs) == 0 {
		return errors.New("docs/comparison.json has no run: run compare without -write")
	}
	return writePage("docs", runs)
}
