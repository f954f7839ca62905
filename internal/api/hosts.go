package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
)

// Sisters knows what other hosts may do here and how they are reached. On a server that has none,
// no host may do anything.
type Sisters interface {
	// MayHead reports whether the host may begin jobs here.
	MayHead(host string) bool
	// AllowRoot reports whether such a job may be root's.
	AllowRoot() bool
	// Evidence returns nil if this host's own files say that the process belongs to the job; an
	// *Error of KindTMOwner otherwise. The server asks for evidence before another host's word
	// moves a process.
	Evidence(ctx context.Context, pid int, job string) error
	// Origin returns the job that a process belongs to which holds the TCP connection. Origin fails
	// with ErrNotFound.
	Origin(ctx context.Context, local, remote netip.AddrPort) (job string, err error)
	// Forward has another host attach a process of its own.
	Forward(ctx context.Context, host string, in AttachRequest) (Attached, error)
}

// versionHeader is on every request of a host and on every answer. Only another major version is
// another API: keys that one side does not know it ignores.
const (
	versionHeader = "Hookhost-Api"
	majorVersion  = "1"
)

// checkVersion compares the version that a header names with this host's; who says whose it is.
func checkVersion(h http.Header, who string) error {
	told := h.Get(versionHeader)
	if major, _, _ := strings.Cut(told, "."); major == majorVersion {
		return nil
	}
	if told == "" {
		told = "no known version"
	} else {
		told = "version " + printable(told)
	}
	return &Error{Status: http.StatusUpgradeRequired, Kind: KindVersion,
		Message: fmt.Sprintf("%s speaks %s of the API, this host %s", who, told, majorVersion)}
}

// printable is text from outside as a message may have it.
func printable(text string) string {
	if len(text) > 32 {
		text = text[:32]
	}
	if quoted := strconv.Quote(text); quoted != `"`+text+`"` {
		return quoted
	}
	return text
}

// isHostOf reports whether host is one of the job's.
func isHostOf(job *hostapi.Job, host string) bool {
	hosts, err := pbs.Hosts(job.ExecVnode, job.ExecHost2)
	return err == nil && slices.ContainsFunc(hosts, func(h string) bool { return pbs.SameHost(h, host) })
}

// mayBeHostOf returns true if one of the job's hosts has all but its domain in common with host. A
// host may have two domains, such as one for each of its networks. The job may name the one, and
// the certificate the other.
func mayBeHostOf(job *hostapi.Job, host string) bool {
	short, _, _ := strings.Cut(host, ".")
	hosts, err := pbs.Hosts(job.ExecVnode, job.ExecHost2)
	return err != nil || slices.ContainsFunc(hosts, func(h string) bool {
		other, _, _ := strings.Cut(h, ".")
		return other == short
	})
}

// tearDown are the events that a host may send again and again, and of a job that is long gone.
// They end what is left of the job.
var tearDown = []hostapi.Event{hostapi.EventPreterm, hostapi.EventAbort, hostapi.EventEpilogue, hostapi.EventEnd}

// betweenHosts are the others that a host may send for a job that it has begun.
var betweenHosts = []hostapi.Event{hostapi.EventPrologue, hostapi.EventResize, hostapi.EventPostsuspend,
	hostapi.EventPreresume}

// fromHost returns the part of a host's event that is carried out: its job. Nothing in it is about
// processes, files or settings of this host. The job's turn decides by the record whether that host
// has begun the job (Request.Head).
func (s *Server) fromHost(peer Peer, req *hostapi.Request) (*hostapi.Request, error) {
	e := req.Event
	if e != hostapi.EventBegin && !slices.Contains(tearDown, e) && !slices.Contains(betweenHosts, e) {
		return nil, denied("%s: %s is not an event that hosts send each other", peer, e)
	}
	if !hostapi.IsRun(req.Run) {
		return nil, malformed(fmt.Errorf("run: %s: want 32 hexadecimal digits", printable(req.Run)))
	}
	own := &hostapi.Request{Event: req.Event, Run: req.Run, Head: peer.Host}
	job := *req.Job // each of these events has one
	job.MotherSuperior, job.SessionID = false, 0
	job.StdoutFile, job.StderrFile, job.JoinPath = "", "", ""
	own.Job = &job
	switch {
	case e == hostapi.EventPreterm && req.Signal != "":
		if err := hostapi.CheckSignal(req.Signal); err != nil {
			return nil, malformed(err)
		}
		own.Signal = req.Signal
	case e == hostapi.EventPreterm:
		own.Signal = req.Signal
	case e == hostapi.EventBegin:
		return own, s.mayBegin(peer, own.Job)
	case e == hostapi.EventResize && (job.ExecVnode != "" || job.ExecHost2 != ""):
		return own, s.isPlaced(peer, own.Job)
	}
	return own, nil
}

// mayBegin looks at a job that another host wants to begin here.
func (s *Server) mayBegin(peer Peer, job *hostapi.Job) error {
	switch {
	case !s.Sisters.MayHead(peer.Host):
		return denied("%s: sister.heads does not list it", peer)
	case pbs.SameHost(peer.Host, s.Host):
		return denied("%s: it has this host's own name", peer)
	}
	if err := s.isPlaced(peer, job); err != nil {
		return err
	}
	return s.isOwner(peer, &job.Owner)
}

// isPlaced reports whether the job is one of the peer's and runs here.
func (s *Server) isPlaced(peer Peer, job *hostapi.Job) error {
	hosts, err := pbs.Hosts(job.ExecVnode, job.ExecHost2)
	switch {
	case err != nil:
		return malformed(err)
	case len(hosts) == 0 || !pbs.SameHost(hosts[0], peer.Host):
		return denied("%s: it is not the first host of job %s", peer, job.ID)
	case !slices.ContainsFunc(hosts, func(h string) bool { return pbs.SameHost(h, s.Host) }):
		return denied("%s: job %s has nothing on %s", peer, job.ID, s.Host)
	}
	return nil
}

// isOwner reports whether the owner is the same user on both hosts. Another host's word makes
// nobody a member of a group.
func (s *Server) isOwner(peer Peer, o *hostapi.Owner) error {
	if o.User == "" || o.UID < 0 {
		return malformed(errors.New("owner: want user and uid"))
	}
	u, err := user.Lookup(o.User)
	if err != nil {
		return hostapi.Errorf(hostapi.KindJob, "owner: %w", err)
	}
	if u.Uid != strconv.Itoa(o.UID) {
		return denied("%s: %s is uid %d there and %s here", peer, printable(o.User), o.UID, u.Uid)
	}
	if o.UID == 0 && !s.Sisters.AllowRoot() {
		return denied("%s: root's jobs (sister.allow_root)", peer)
	}
	if told := strconv.Itoa(o.GID); o.GID >= 0 && told != u.Gid {
		groups, err := u.GroupIds()
		if err != nil {
			return hostapi.Errorf(hostapi.KindNode, "groups of %s: %w", o.User, err)
		}
		if !slices.Contains(groups, told) {
			return denied("%s: %s is not in group %s here", peer, printable(o.User), told)
		}
	}
	return nil
}

// origin tells a host which job one of its connections comes from.
func (s *Server) origin(peer Peer, r *http.Request) (any, error) {
	var ends [2]netip.AddrPort
	for i, key := range []string{"local", "remote"} {
		text := r.URL.Query().Get(key)
		end, err := netip.ParseAddrPort(text)
		if err != nil {
			return nil, malformed(fmt.Errorf("%s=%s: want IP:PORT", key, printable(text)))
		}
		ends[i] = end
	}
	id, err := s.Sisters.Origin(r.Context(), ends[0], ends[1])
	if err == nil {
		var j Job
		if j, err = s.Jobs.Job(r.Context(), id); err == nil && !peer.sees(j.Job) {
			err = ErrNotFound
		}
	}
	if errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("connection from %s to %s: %w", ends[0], ends[1], ErrNotFound)
	}
	return originOf{Job: id}, err
}

type originOf struct {
	Job string `json:"job"`
}
