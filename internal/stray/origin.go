package stray

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
)

// sessionsDir is where systemd-logind has a file for each session, which
// sd_session_get_remote_host(3) reads.
const sessionsDir = "/run/systemd/sessions"

// origin finds out what the process came by, and what systemd-logind has of its session. A
// connection of the sshd above it, which no user can forge, goes before that of its environment.
func (r *Reader) origin(f *Facts) error {
	for _, a := range f.Chain {
		if a.UID != 0 || !isSSHD(a.Program) {
			continue
		}
		held, err := heldBy(r.Procfs, a.PID)
		if err != nil {
			return gone(err)
		}
		if held != nil {
			f.SSH = held
			break
		}
	}
	if f.SSH != nil {
		local, remote, err := ends(*f.SSH)
		if err != nil {
			return err
		}
		_, err = findConnection(r.Procfs, remote, local)
		if f.Gone = errors.Is(err, errNoConnection); err != nil && !f.Gone {
			return err
		}
	}
	if id := sessionOf(f.Cgroup); id != "" {
		f.Local = FromHere(remoteHost(r.Sessions, id))
	}
	return nil
}

// Sender returns which of the jobs has a process that holds the client's end of a connection. The
// job is "" where none has, where several have, and where the client is on another host. Sender
// stops when ctx ends.
func (r *Reader) Sender(ctx context.Context, from hostapi.Origin, jobs []Job,
	members func(job string) ([]int, error)) (string, error) {
	local, remote, err := ends(from)
	if err != nil {
		return "", err
	}
	c, err := findConnection(r.Procfs, local, remote)
	if errors.Is(err, errNoConnection) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var holders []string
	for _, j := range jobs {
		if j.UID != c.UID {
			continue
		}
		pids, _ := members(j.ID) // of one that ends there are none
		for _, pid := range pids {
			held, err := holds(ctx, r.Procfs, pid, c.Inode)
			if err != nil {
				return "", err
			}
			if held {
				holders = append(holders, j.ID)
				break
			}
		}
	}
	if len(holders) != 1 {
		return "", nil
	}
	return holders[0], nil
}

func ends(o hostapi.Origin) (local, remote netip.AddrPort, err error) {
	local, err = netip.ParseAddrPort(o.Local)
	if err == nil {
		remote, err = netip.ParseAddrPort(o.Remote)
	}
	return local, remote, err
}

// remoteHost returns the address, or the name, from which a session of systemd-logind's was begun.
// The result is "" for a session that was not begun by the network, and for one that is not known.
func remoteHost(dir, session string) string {
	if dir == "" {
		dir = sessionsDir
	}
	b, err := os.ReadFile(filepath.Join(dir, filepath.Base(session)))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if host, ok := strings.CutPrefix(strings.TrimSpace(line), "REMOTE_HOST="); ok {
			return host
		}
	}
	return ""
}

// FromHere reports whether a host, by address or name, is this one.
func FromHere(host string) bool {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		name, _ := os.Hostname()
		short, _, _ := strings.Cut(name, ".")
		return host != "" && (host == "localhost" || strings.EqualFold(host, name) || strings.EqualFold(host, short))
	}
	addr = addr.Unmap().WithZone("")
	if addr.IsLoopback() {
		return true
	}
	own, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(own, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr().Unmap().WithZone("") == addr
	})
}

// LoggedIn reports whether root's programs say that the process is somebody's login, or came out of
// one. A login program is above it then, or systemd-logind has it in a session that was not begun
// from this very host.
func (f Facts) LoggedIn() bool {
	return descends(f, isLogin) || sessionOf(f.Cgroup) != "" && !f.Local
}
