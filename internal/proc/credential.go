package proc

import (
	"fmt"
	"os/user"
	"strconv"
	"syscall"

	"github.com/hookhost/hookhost/hostapi"
)

// Credential returns what a process of a job's owner runs with: the owner's ids, and all groups of
// that user.
func Credential(u *user.User, o hostapi.Owner) (*syscall.Credential, error) {
	ids, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("groups of user %s: %w", u.Username, err)
	}
	cred := &syscall.Credential{Uid: uint32(o.UID), Gid: uint32(o.GID)}
	for _, id := range ids {
		gid, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("groups of user %s: %w", u.Username, err)
		}
		cred.Groups = append(cred.Groups, uint32(gid))
	}
	return cred, nil
}
