package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/internal/sister"
)

func (c *cli) certCommand() *cobra.Command {
	var dir string
	var force bool
	cmd := &cobra.Command{
		Use: "cert --dir DIR HOST[,ALIAS...]...", Args: nArgs(1, -1),
		Short: "Make certificates by which hosts know each other, for trial",
		Long: `Make a certificate for each HOST, for the [sister] section of its configuration: DIR/HOST.crt and
DIR/HOST.key, valid for a year. HOST is the host's name in exec_vnode. ALIAS is another name, or an
address, by which it is reached. DIR/ca.crt and DIR/ca.key sign them. They are made if they are
missing, and are valid for ten years.

This is for trial and for small clusters: anybody who reads ca.key can be any host. Keep DIR where
only root can read it, copy to each host its own three files and nothing else, and never ca.key. A
site with a CA of its own uses that. Files that are there are kept. --force makes the hosts' anew,
never the CA's.`,
		Example: `  hookhost cert --dir /root/hookhost-ca n1 n2,n2-ib,10.0.0.2
  scp /root/hookhost-ca/{ca.crt,n2.crt,n2.key} n2:/etc/hookhost/`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir == "" {
				return misuse(errors.New("cert: --dir is needed"))
			}
			list, err := sister.Certificates(dir, args)
			if err != nil {
				return misuse(fmt.Errorf("cert: %w", err))
			}
			if err := sister.Issue(dir, list, force, time.Now()); err != nil {
				return fmt.Errorf("cert: %w", err)
			}
			for _, certificate := range list {
				writeCertificate(cmd.OutOrStdout(), certificate)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "where certificates and keys are kept")
	cmd.Flags().BoolVar(&force, "force", false, "replace the certificates of these hosts")
	return cmd
}

// writeCertificate writes what is to be done with a certificate.
func writeCertificate(out io.Writer, c *sister.Certificate) {
	const there = "/etc/hookhost"
	fmt.Fprintf(out, "# %s: %s, until %s. ", c.File(), c.Host(), c.Until().Format(time.DateOnly))
	fmt.Fprintf(out, "Copy ca.crt, %s.crt and %[1]s.key to %s there, and in hookhost.toml:\n", c.Host(), there)
	fmt.Fprintln(out, c.Section(there))
}
