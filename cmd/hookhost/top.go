package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/passwd"
	"github.com/hookhost/hookhost/internal/top"
)

func (c *cli) topCommand() *cobra.Command {
	var once, asJSON bool
	var interval time.Duration
	cmd := &cobra.Command{
		Use: "top [--interval TIME] [--once [--json]]", Args: noArgs,
		Short: "Watch the jobs on this host: cpu, memory, time left",
		Long: `Watch the live jobs on this host on a terminal. Root sees all jobs, other users
see their own. The figures are those of this host only.

Keys: up and down select, enter shows the job's processes, s sorts by the next
column, r reverses, / filters by job, user or name, ? explains the columns, q
goes back or quits. A narrow terminal shows fewer columns.

The daemon reads the figures on request and does not call any hook. --once
prints one frame as text, with all columns. It does not need a terminal.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if interval < top.Least {
				return misuse(fmt.Errorf("top: --interval %v: at least %v", interval, top.Least))
			}
			if asJSON && !once {
				return misuse(errors.New("top: --json: only with --once"))
			}
			if !once && !top.IsTerminal(os.Stdout) {
				return misuse(errors.New("top: standard output is not a terminal: use --once"))
			}
			client, err := api.Dial(c.Socket)
			if err != nil {
				return fmt.Errorf("top: %w", err)
			}
			defer client.Close()
			if asJSON {
				return top.OnceJSON(cmd.Context(), client, cmd.OutOrStdout())
			}
			if once {
				return top.Once(cmd.Context(), client, cmd.OutOrStdout())
			}
			return top.Run(cmd.Context(), client, interval, userNames(), showsUTF8(), os.Stdout)
		},
	}
	usage := "`TIME` between two samples, at least " + top.Least.String()
	cmd.Flags().DurationVar(&interval, "interval", 2*time.Second, usage)
	cmd.Flags().BoolVar(&asJSON, "json", false, "with --once: print JSON")
	cmd.Flags().BoolVar(&once, "once", false, "print one frame and exit")
	return cmd
}

// userNames returns a function that returns users' names, or the number if this host has no name
// for it. It looks up each name once, and is not safe for concurrent use.
func userNames() func(uid int) string {
	known := map[int]string{}
	return func(uid int) string {
		name, ok := known[uid]
		if !ok {
			name = strconv.Itoa(uid)
			if u, err := passwd.LookupID(uid); err == nil {
				name = u.Username
			}
			known[uid] = name
		}
		return name
	}
}
