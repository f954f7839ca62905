package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/pam"
	"github.com/hookhost/hookhost/internal/settings"
	"github.com/hookhost/hookhost/internal/tm"
)

// How long a login waits for a daemon that restarts, and for other logins that have the file of
// variables. Each of those has it while PAM starts a program, so hundreds of one user take seconds.
const (
	loginWait   = 3 * time.Second
	envFileWait = 20 * time.Second
)

// pamSteps are the calls of `hookhost pam` in a login, in order.
var pamSteps = map[string]func(*cli, context.Context) error{
	"account": (*cli).pamAccount, "environment": (*cli).pamEnvironment, "session": (*cli).pamSession,
}

func (c *cli) pamCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pam account|environment|session",
		Short: "Let users log in where they have a job, as part of that job",
		Long: `PAM calls this command at each login, by pam_exec(8), if these lines are in
/etc/pam.d/sshd: the first before common-account, the others after
common-session and pam_limits and before pam_env.

  account  required  pam_exec.so quiet stdout /usr/bin/hookhost pam account
  session  [success=ignore default=1]  pam_exec.so quiet type=open_session \
           /usr/bin/hookhost pam environment
  session  optional  pam_env.so envfile=/run/hookhost/pam.env
  session  required  pam_exec.so quiet stdout type=open_session \
           /usr/bin/hookhost pam session

  account      refuses a login if [pam] of the configuration demands that
  environment  writes the variables of the session's job for pam_env; exit
               status 1 if there are none
  session      makes the session part of the job; its processes are confined,
               counted and killed with it

[pam] decides what happens: whose logins are refused (restrict), whether a
session becomes part of a job, and of which (adopt), who is exempt (allow), and
what holds without a daemon (unavailable). By default every login is let in and
left alone. See docs/pam.md.

The user is PAM_USER. Exit status: 0 if the user is let in; 1 if not, with one
line about it on standard output, which pam_exec shows to the user.`,
		Args: nArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			step := pamSteps[args[0]]
			if step == nil {
				return misuse(fmt.Errorf("pam: %q: want account, environment or session", args[0]))
			}
			if !settings.IsRoot() {
				return errors.New("pam: root only, called by pam_exec(8)")
			}
			c.ignoreEnvironment(cmd)
			return step(c, cmd.Context())
		},
	}
}

// ignoreEnvironment clears the environment, which a user may have set, and resets the paths that
// come from it. login reads what pam_exec has set.
func (c *cli) ignoreEnvironment(cmd *cobra.Command) {
	os.Clearenv()
	for _, p := range []struct {
		flag, otherwise string
		path            *string
	}{{"config", config.Path, &c.Config}, {"state", defaultState, &c.State}, {"socket", defaultSocket, &c.Socket}} {
		if !cmd.Flags().Changed(p.flag) {
			*p.path = p.otherwise
		}
	}
	c.named = cmd.Flags().Changed("config")
	c.Must = c.named
}

func (c *cli) pamAccount(ctx context.Context) error {
	_, _, err := c.login(ctx, 0, loginWait)
	return refused(err)
}

// pamEnvironment fails if there is nothing to read for pam_env. It prints nothing, because PAM does
// not show it. If the user has to stay out, the next step fails, too.
func (c *cli) pamEnvironment(ctx context.Context) error {
	login, session, err := c.login(ctx, 0, 0)
	if err == nil && session.Job == "" {
		err = errors.New("pam: the session is not part of a job")
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, envFileWait)
		defer cancel()
		err = pam.EnvFile(c.LoginEnv()).Write(ctx, login.UID, os.Getppid(), session.Env)
	}
	if err != nil {
		return &exitError{status: 1}
	}
	return nil
}

// pamSession adds the process that called PAM to the job. What it starts from now on, and so the
// whole session, is part of the job. pam_env has read the file by now, and others wait for it.
func (c *cli) pamSession(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, envFileWait)
	defer cancel()
	if err := pam.EnvFile(c.LoginEnv()).Remove(short, os.Getppid()); err != nil && !errors.Is(err, os.ErrNotExist) {
		fmt.Fprintf(stdout, "hookhost: %v\n", err)
	}
	_, session, err := c.login(ctx, os.Getppid(), loginWait)
	if err == nil && session.Job != "" {
		fmt.Fprintf(stdout, "This session is part of your job %s and ends with it.\n", session.Job)
	}
	return refused(err)
}

// login asks the daemon about the login that pam_exec describes, unless the configuration exempts
// the user. With a pid, that process joins the job. wait bounds the retries while a daemon
// restarts. Without an answer, or if the user cannot be looked up, the configuration decides. If
// that cannot be read, nobody is locked out.
func (c *cli) login(
	ctx context.Context, pid int, wait time.Duration,
) (login api.Login, session api.Session, err error) {
	environ, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		return login, session, fmt.Errorf("pam: %w", err)
	}
	login = pam.Read(environ)
	login.PID = pid
	cfg, wrong := c.load()
	if wrong == nil && pam.Exempt(cfg.PAM, login) {
		return login, session, nil
	}
	err = pam.Identify(&login)
	if err == nil && wrong == nil && pam.Exempt(cfg.PAM, login) {
		return login, session, nil
	}
	if err == nil {
		session, err = tm.Retry(ctx, c.Socket, wait, func(client *api.Client) (api.Session, error) {
			return client.Login(ctx, login)
		})
	}
	var answer *api.Error
	switch {
	case err == nil || errors.As(err, &answer) && answer.Kind == api.KindLogin:
		return login, session, err
	case wrong != nil:
		fmt.Fprintf(stdout, "hookhost: all logins are let in, because there is no valid configuration: %v; %v\n",
			wrong, err)
		return login, session, nil
	}
	if login.NoGroups != "" {
		err = fmt.Errorf("%w; no @group in allow counts: %s", err, login.NoGroups)
	}
	return login, api.Session{}, pam.Unavailable(cfg.PAM, err)
}

// refused prints the refusal of a login, and returns the error for its exit status.
func refused(err error) error {
	if err == nil {
		return nil
	}
	fmt.Fprintln(stdout, err)
	return &exitError{status: 1}
}
