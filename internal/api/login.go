package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/hookhost/hookhost/hostapi"
)

// Logins decides about logins to this host.
type Logins interface {
	// Login decides about a login. With a PID it also adds that process to the job. A login that is
	// refused is an *Error of KindLogin, whose text is for the user.
	Login(ctx context.Context, login Login) (Session, error)
}

// Login describes a login, as PAM knows it.
type Login struct {
	User   string   `json:"user"`
	UID    int      `json:"uid"`
	Groups []string `json:"groups,omitempty"`
	// NoGroups is why the groups are not known; "" if they are.
	NoGroups string `json:"no_groups,omitempty"`
	From     string `json:"from,omitempty"` // the client's name or address (PAM_RHOST)
	Job      string `json:"job,omitempty"`  // the job that the client names (PBS_JOBID)
	// PID is root's process that will start the session. 0 only asks for the decision.
	PID int `json:"pid,omitempty"`
	// StartTime is when that process began, in clock ticks since boot. The server sets it.
	StartTime uint64 `json:"-"`
}

// Session is a login that is let in.
type Session struct {
	Job string            `json:"job,omitempty"` // the job that it is part of; "" for none
	Env map[string]string `json:"env,omitempty"` // variables of that job
}

// RefusedLogin returns the error for a login that is refused.
func RefusedLogin(format string, args ...any) *Error {
	message := hostapi.OneLine(fmt.Sprintf(format, args...))
	return &Error{Status: http.StatusForbidden, Kind: KindLogin, Message: message}
}

// login is called by root: PAM runs hookhost pam.
func (s *Server) login(peer Peer, r *http.Request) (any, error) {
	var in Login
	if err := decodeBody(r.Body, &in); err != nil {
		return nil, err
	}
	if in.User == "" || in.UID < 0 {
		return nil, malformed(fmt.Errorf("login of user %q, uid %d: want both", in.User, in.UID))
	}
	if in.PID > 0 {
		var err error
		if in.PID, err = s.numberFor(peer, in.PID); err != nil {
			return nil, err
		}
	}
	if in.PID < 0 || in.PID == 1 {
		return nil, malformed(fmt.Errorf("login of %s: pid %d: not a process that starts a session", in.User, in.PID))
	}
	if in.PID > 1 {
		p, err := s.process(in.PID)
		if err == nil { // It waits for the caller. While that lives, no other process has its pid.
			_, err = s.process(peer.PID)
		}
		if err != nil {
			return nil, err
		}
		in.StartTime = p.StartTime
	}
	return s.Logins.Login(context.WithoutCancel(r.Context()), in)
}

// Login asks about a login, or makes it part of a job: see Logins. Only root may call it.
func (c *Client) Login(ctx context.Context, login Login) (Session, error) {
	var session Session
	err := c.call(ctx, http.MethodPost, "/v1/login", login, &session)
	return session, err
}
