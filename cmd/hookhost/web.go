package main

import (
	"errors"
	"fmt"
	"net/textproto"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/web"
)

func (c *cli) webCommand() *cobra.Command {
	var listen, owner, header string
	cmd := &cobra.Command{
		Use: "web [--listen ADDRESS] [--socket-user USER] [--user-header NAME]", Args: noArgs,
		Short: "Show jobs and reports to a browser",
		Long: `Show jobs and reports to a browser: the jobs that live on this host, finished jobs, the report of each.
All jobs for root, the caller's own for others: the daemon is asked as the user who runs this. It
changes nothing, and runs until SIGTERM or SIGINT.

On an address of the loopback, which is the default, it prints the address to open. There is a token
in it, since every user of the host can connect. A browser elsewhere comes by ssh:

  ssh -L 8080:127.0.0.1:PORT HOST

Behind a site's web server it listens on a unix socket of mode 0600, which belongs to the user that
the web server runs as (--socket-user). --user-header is the header in which the web server says who
has logged in, with the name that PBS has for the user. It shows own jobs to each, and nothing where
the header is missing. The web server has to set it in every request, and to pass on none that came
from outside.`,
		Example: `  hookhost web
  hookhost web --listen unix:/run/hookhost-web/socket --socket-user www-data --user-header X-Remote-User`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := checkWeb(listen, owner, header)
			if err == nil && cmd.Flags().Changed("user-header") { // an empty variable must not mean all jobs
				err = web.CheckHeader(header)
			}
			if err != nil {
				return misuse(fmt.Errorf("web: %w", err))
			}
			if err := c.web(cmd, listen, owner, header); err != nil {
				return fmt.Errorf("web: %w", err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:0", "a port of the loopback, 0 for any that is free, or unix:PATH")
	f.StringVar(&owner, "socket-user", "", "whom the unix socket belongs to; without it, who runs this")
	f.StringVar(&header, "user-header", "", "the header with the user's name, on a unix socket")
	return cmd
}

func checkWeb(listen, owner, header string) error {
	if err := web.CheckAddress(listen); err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	if !web.IsUnix(listen) && owner+header != "" {
		return errors.New("--socket-user and --user-header are for a unix socket alone: --listen unix:PATH")
	}
	return nil
}

func (c *cli) web(cmd *cobra.Command, listen, owner, header string) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	l, err := web.Listen(listen, owner)
	if err != nil {
		return err
	}
	access := web.Access{UserHeader: textproto.CanonicalMIMEHeaderKey(header), All: os.Geteuid() == 0}
	address := listen
	if !web.IsUnix(listen) {
		access.Token = web.NewToken()
		address = fmt.Sprintf("http://%s/%s/", l.Addr(), access.Token)
	}
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), address); err != nil {
		return errors.Join(err, l.Close())
	}
	return web.Serve(ctx, l, web.Handler(web.Socket(c.Socket), access))
}
