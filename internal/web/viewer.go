package web

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/hookhost/hookhost/hostapi"
)

// viewer is the person who requests a page.
type viewer struct {
	user string // the user named by a proxy; "" may see everything that the server may
}

// CheckHeader returns an error for an invalid name of a header. "" is invalid: it would show all
// jobs to everyone.
func CheckHeader(name string) error {
	if !httpguts.ValidHeaderFieldName(name) {
		return fmt.Errorf("--user-header %q: not the name of a header", name)
	}
	return nil
}

// viewer returns the viewer of a request. A proxy that names no user, or two, is assumed not to
// have checked a password.
func (s *server) viewer(r *http.Request) (viewer, error) {
	if s.access.UserHeader == "" {
		return viewer{}, nil
	}
	names := r.Header.Values(s.access.UserHeader)
	if len(names) != 1 || names[0] == "" {
		return viewer{}, fmt.Errorf("%w: want one header %s, got %d", errUnknown, s.access.UserHeader, len(names))
	}
	return viewer{user: names[0]}, nil
}

// sees reports whether the viewer may see a job, according to PBS's name for its owner. Only root
// may see an unknown job.
func (v viewer) sees(job *hostapi.Job) bool {
	return v.user == "" || job != nil && job.Owner.User == v.user
}

// below passes requests on to pages if they are below the token and name the loopback as their
// host. So another site cannot make its name stand for this address (DNS rebinding).
func (s *server) below(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _, slash := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		switch {
		case !isLoopback(r.Host):
			http.Error(w, "this server only answers requests for localhost or a loopback address", http.StatusForbidden)
		case subtle.ConstantTimeCompare([]byte(token), []byte(s.access.Token)) != 1:
			http.Error(w, "not found: open the address that 'hookhost web' has printed", http.StatusNotFound)
		case !slash:
			http.Redirect(w, r, "/"+token+"/", http.StatusSeeOther)
		default:
			http.StripPrefix("/"+token, pages).ServeHTTP(w, r)
		}
	})
}

// isLoopback reports whether the header Host is a name of the loopback. Behind a tunnel the port
// differs.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && addr.IsLoopback()
}

var (
	errRequest = errors.New("the address makes no sense")
	errUnknown = errors.New("the proxy has not said who asks")
	errBusy    = errors.New("wait for the pages that you have asked for")
)
