package proc

import (
	"fmt"
	"syscall"
)

// BecomeUser gives up root's rights in the whole process, including those to keys. The caller must
// lock its goroutine to the thread. After an error the process may have given up some of them, and
// must end.
func BecomeUser(c *syscall.Credential) error {
	if err := LeaveSessionKeyring(); err != nil {
		return err
	}
	groups := make([]int, len(c.Groups))
	for i, g := range c.Groups {
		groups[i] = int(g)
	}
	for _, step := range []func() error{
		func() error { return syscall.Setgroups(groups) },
		func() error { return syscall.Setgid(int(c.Gid)) },
		func() error { return syscall.Setuid(int(c.Uid)) },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("become user %d: %v", c.Uid, err) // the errno is not about a program
		}
	}
	return nil
}
