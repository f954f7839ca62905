package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/internal/ledger"
)

// verifyLedger reads the whole ledger and prints what it is like.
func (c *cli) verifyLedger(cmd *cobra.Command) error {
	if os.Geteuid() != 0 {
		return errors.New("report: --verify: the ledger is root's")
	}
	bar := &progress{begun: time.Now(), width: columnsOf(stderr)}
	found, err := c.OpenLedger().Verify(cmd.Context(), bar.show)
	bar.clear()
	if err != nil {
		return fmt.Errorf("report: verify %s: %w", c.Ledger(), err)
	}
	if err := writeVerification(cmd.OutOrStdout(), found); err != nil {
		return err
	}
	if found.Damage != nil || len(found.Twice) > 0 {
		return &exitError{status: 1}
	}
	return nil
}

// writeVerification writes the files, then each damaged line and each duplicate.
func writeVerification(w io.Writer, found *ledger.Verification) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "FILE\tMB\tREPORTS\tDAMAGED")
	reports, damaged := 0, 0
	for _, f := range found.Files {
		remark := ""
		switch {
		case f.Waits:
			remark = "\twait to be written to the ledger"
		case f.Torn > 0 && f.Damaged == 0:
			remark = fmt.Sprintf("\t%d bytes of a line that was not finished, which the next report replaces", f.Torn)
		}
		fmt.Fprintf(t, "%s\t%.1f\t%d\t%d%s\n", f.Path, float64(f.Bytes)/1e6, f.Reports, f.Damaged, remark)
		reports, damaged = reports+f.Reports, damaged+f.Damaged
	}
	fmt.Fprintf(t, "in all\t\t%d\t%d\n", reports, damaged)
	if err := t.Flush(); err != nil {
		return err
	}
	var b strings.Builder
	if d := found.Damage; d != nil {
		for _, line := range d.Lines {
			fmt.Fprintf(&b, "damaged: %s\n", line)
		}
		if more := d.Count - len(d.Lines); more > 0 {
			fmt.Fprintf(&b, "and %d more\n", more)
		}
	}
	for _, d := range found.Twice {
		fmt.Fprintf(&b, "twice: job %s: %s and %s are of one run\n", d.Job, d.First, d.Second)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// progress is a line on a terminal that says how far a long command has come.
type progress struct {
	begun time.Time
	width int // of the terminal; 0 where there is none
	shown bool
}

func (p *progress) show(read, all int64) {
	if p.width == 0 || time.Since(p.begun) < time.Second {
		return
	}
	p.shown = true
	text := fmt.Sprintf("%s: %d of %d MB", filepath.Base(os.Args[0]), read/1e6, all/1e6)
	fmt.Fprintf(os.Stderr, "\r%s\x1b[K", text[:min(len(text), p.width-1)])
}

func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
	}
}
