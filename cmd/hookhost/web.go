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
		Use: "web [--listen ADDRESS]", Args: noArgs,
		Short: "Show jobs and reports in a browser",
		Long: `Show jobs and reports in a browser: the live jobs of this host, finished jobs,
and the report of each. Root sees all jobs, other users see their own, because
the daemon answers for the user who runs this command. The command does not
change anything. It runs until SIGTERM or SIGINT.

By default it listens on a loopback address and prints the address to open. The
address contains a token, because every user of the host can connect. To use a
browser on another host, forward the port with ssh:

  ssh -L 8080:127.0.0.1:PORT HOST

Behind a site's web server, it listens on a unix socket of mode 0600. The
socket belongs to the user that the web server runs as (--socket-user). In the
header --user-header, the web server sends the name of the logged-in user, as
PBS knows it. Each user then sees only their own jobs. A request without the
header is refused. The web server must set the header in every request, and
must remove one that came from outside.`,
		Example: `  hookhost web
  hookhost web --listen unix:/run/hookhost-web/socket --socket-user www-data \
      --user-header X-Remote-User`,
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
	f.StringVar(&listen, "listen", "127.0.0.1:0", "`ADDRESS` on the loopback, PORT 0 for any; or unix:PATH")
	f.StringVar(&owner, "socket-user", "", "the `USER` who owns the unix socket (default: the caller)")
	f.StringVar(&header, "user-header", "", "the user's name comes in header `NAME`, for a unix socket")
	return cmd
}

func checkWeb(listen, owner, header string) error {
	if err := web.CheckAddress(listen); err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	if !web.IsUnix(listen) && owner+header != "" {
		return errors.New("--socket-user and --user-header need a unix socket: --listen unix:PATH")
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
