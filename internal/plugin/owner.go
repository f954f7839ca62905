package plugin

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/passwd"
)

// ResolveOwner fills in the uid and gid of the job's owner if the event did not say.
func ResolveOwner(o *hostapi.Owner) error {
	if o.UID >= 0 && o.GID >= 0 {
		return nil
	}
	if o.User == "" && o.UID < 0 {
		return errors.New("owner: neither user nor uid is given")
	}
	u, err := lookup(*o)
	if err != nil {
		return fmt.Errorf("owner: %w", err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return fmt.Errorf("owner %s: uid %q: %w", o.User, u.Uid, err)
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return fmt.Errorf("owner %s: gid %q: %w", o.User, u.Gid, err)
	}
	if o.UID < 0 {
		o.UID = uid
	}
	if o.GID < 0 {
		o.GID = gid
	}
	return nil
}

func lookup(o hostapi.Owner) (*user.User, error) {
	if o.User != "" {
		return passwd.Lookup(o.User)
	}
	return passwd.LookupID(o.UID)
}
