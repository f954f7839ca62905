package main

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/tm"
)

// remshArgs is a call of remsh.
type remshArgs struct {
	host    string // without USER@
	user    string // "" when nobody said
	job     string // -j; "" for PBS_JOBID
	rsh     string // -r
	socket  string // --socket
	remote  string // --remote: the other end
	child   bool   // --child: what the other end starts
	version bool
	help    bool
	noStdin bool
	options []string // ssh's own
	command []string
}

// errUsage is a call that cannot be understood.
var errUsage = errors.New("usage")

// parseRemsh reads the arguments that launchers give their remote shell. They are options of ssh
// and rsh, HOST, some options once more for rsh's sake, and the command. All that follows is the
// command's. Letters may stand together, and a value with its letter.
//
// -f is -n here, and -t and -T are nothing: standard input is a stream of frames, not the terminal.
func parseRemsh(args []string) (*remshArgs, error) {
	a := &remshArgs{}
	rest, err := a.parseOptions(args, "nxXqftTvlpoijr")
	if err != nil || a.remote != "" || a.child || a.version || a.help {
		return a, err
	}
	if len(rest) == 0 {
		return nil, fmt.Errorf("%w: no host", errUsage)
	}
	host := rest[0]
	if name, at, ok := cutLast(host, "@"); ok {
		a.user, host = name, at
	}
	if host == "" || strings.HasPrefix(host, "-") {
		return nil, fmt.Errorf("%w: bad host %q", errUsage, rest[0])
	}
	a.host = host
	if a.command, err = a.parseOptions(rest[1:], "nlp"); err != nil {
		return nil, err
	}
	if len(a.command) == 0 {
		return nil, fmt.Errorf("%w: no command", errUsage)
	}
	return a, nil
}

// withValue are the options that have one.
const withValue = "lpoijr"

// parseOptions reads the options at the beginning of args that are among letters, and returns the
// rest. Behind HOST an option that is not among them begins the command.
func (a *remshArgs) parseOptions(args []string, letters string) ([]string, error) {
	for len(args) > 0 {
		arg := args[0]
		switch {
		case arg == "--":
			return args[1:], nil
		case a.host == "" && strings.HasPrefix(arg, "--"):
			n, err := a.long(args)
			if err != nil {
				return nil, err
			}
			args = args[n:]
			continue
		case len(arg) < 2 || arg[0] != '-':
			return args, nil
		case a.host != "" && !strings.ContainsRune(letters, rune(arg[1])):
			return args, nil
		}
		args = args[1:]
		for i := 1; i < len(arg); i++ {
			letter := arg[i]
			if !strings.ContainsRune(letters, rune(letter)) {
				return nil, fmt.Errorf("%w: unknown option -%c", errUsage, letter)
			}
			if !strings.ContainsRune(withValue, rune(letter)) {
				a.flag(letter)
				continue
			}
			value := arg[i+1:]
			if value == "" {
				if len(args) == 0 {
					return nil, fmt.Errorf("%w: -%c needs a value", errUsage, letter)
				}
				value, args = args[0], args[1:]
			}
			a.value(letter, value)
			break
		}
	}
	return nil, nil
}

func (a *remshArgs) flag(letter byte) {
	switch letter {
	case 'n', 'f':
		a.noStdin = true
	case 'x', 'X', 'q', 'v':
		a.options = append(a.options, "-"+string(letter))
	}
}

func (a *remshArgs) value(letter byte, value string) {
	switch letter {
	case 'l':
		a.user = value
	case 'j':
		a.job = value
	case 'r':
		a.rsh = value
	default:
		a.options = append(a.options, "-"+string(letter), value)
	}
}

// long takes a long option and returns how many arguments it had.
func (a *remshArgs) long(args []string) (int, error) {
	name, value, joined := strings.Cut(args[0], "=")
	switch name {
	case "--version":
		a.version = true
		return 1, nil
	case "--help":
		a.help = true
		return 1, nil
	case "--child":
		a.child = true
		return 1, nil
	case "--remote", "--socket", "--config", "--state":
	default:
		return 0, fmt.Errorf("%w: unknown option %s", errUsage, name)
	}
	n := 1
	if !joined {
		if len(args) == 1 {
			return 0, fmt.Errorf("%w: %s needs a value", errUsage, name)
		}
		value, n = args[1], 2
	}
	switch name {
	case "--remote":
		a.remote = value
	case "--socket":
		a.socket = value
	}
	return n, nil
}

// cutLast cuts at the last sep.
func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// check completes the call and refuses what cannot work over there.
func (a *remshArgs) check(called string) error {
	if a.job == "" {
		a.job = os.Getenv("PBS_JOBID")
	}
	if a.job != "" {
		if err := hostapi.CheckJobID(a.job); err != nil {
			return err
		}
	}
	if a.user != "" && !slices.Contains(ownNames(), a.user) {
		return fmt.Errorf("bad user %q", a.user)
	}
	if called == "pbs_tmrsh" { // for the others any host will do where the job is, whatever its other names
		if a.job == "" {
			return errors.New("PBS jobid not in environment")
		}
		return a.inNodefile()
	}
	return nil
}

// ownNames returns the caller's names. The environment has the name of a user who is in no
// /etc/passwd, as with LDAP.
func ownNames() []string {
	names := []string{os.Getenv("USER"), os.Getenv("LOGNAME")}
	if u, err := user.Current(); err == nil {
		names = append(names, u.Username)
	}
	return names
}

// inNodefile refuses a host that PBS_NODEFILE does not name, as pbs_tmrsh does. A file that cannot
// be read refuses none.
func (a *remshArgs) inNodefile() error {
	b, err := os.ReadFile(os.Getenv("PBS_NODEFILE"))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		if tm.IsHost(a.host, strings.TrimSpace(line)) {
			return nil
		}
	}
	return fmt.Errorf("host %q is not a node in job <%s>", a.host, a.job)
}
