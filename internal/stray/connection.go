package stray

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strconv"
	"syscall"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// ErrNoConnection says that this host has no such connection, or more than one.
var ErrNoConnection = errors.New("no such connection")

// Connection is the end of a TCP connection that this host holds.
type Connection struct {
	UID   int    // who made it
	Inode uint64 // of its socket
}

// established is TCP_ESTABLISHED of include/net/tcp_states.h.
const established = "01"

// FindConnection returns this host's end of a TCP connection, from local to remote as this host sees them. It reads all of
// /proc/net/tcp and tcp6, which are of the network namespace of the caller. It fails with ErrNoConnection.
func FindConnection(procfs *kernfs.FS, local, remote netip.AddrPort) (Connection, error) {
	fail := func(err error) (Connection, error) {
		return Connection{}, fmt.Errorf("connection from %s to %s: %w", local, remote, err)
	}
	var found []Connection
	for _, file := range []string{"net/tcp", "net/tcp6"} {
		text, err := procfs.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) { // a kernel without IPv6
			continue
		}
		if err != nil {
			return fail(err)
		}
		for row := range bytes.Lines(text) {
			c, ok := matches(row, local, remote)
			if ok {
				found = append(found, c)
			}
		}
	}
	if len(found) != 1 {
		return fail(ErrNoConnection)
	}
	return found[0], nil
}

// matches reads a row "sl local_address rem_address st queues timer retransmits uid timeout inode ...". The heading is none.
func matches(row []byte, local, remote netip.AddrPort) (Connection, bool) {
	fields := bytes.Fields(row)
	if len(fields) < 10 || string(fields[3]) != established || !isEnd(fields[1], local) || !isEnd(fields[2], remote) {
		return Connection{}, false
	}
	uid, uerr := strconv.ParseUint(string(fields[7]), 10, 32)
	inode, ierr := strconv.ParseUint(string(fields[9]), 10, 64)
	return Connection{UID: int(uid), Inode: inode}, uerr == nil && ierr == nil && inode > 0
}

// isEnd tells whether an address of the table, words of 32 bits in the machine's own order, is that end. The zone of an address that is a link's
// own is not in the table.
func isEnd(text []byte, end netip.AddrPort) bool {
	host, port, ok := bytes.Cut(text, []byte{':'})
	if n, err := strconv.ParseUint(string(port), 16, 16); !ok || err != nil || uint16(n) != end.Port() {
		return false
	}
	raw := make([]byte, hex.DecodedLen(len(host)))
	if _, err := hex.Decode(raw, host); err != nil || len(raw)%4 != 0 {
		return false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	addr, ok := netip.AddrFromSlice(raw)
	return ok && addr.Unmap() == end.Addr().Unmap().WithZone("")
}

// Holds tells whether the process pid has a descriptor of the socket. A process that is gone has none. It stops when ctx ends: a user may have
// millions of descriptors.
func Holds(ctx context.Context, procfs *kernfs.FS, pid int, inode uint64) (bool, error) {
	dir := strconv.Itoa(pid) + "/fd"
	names, err := procfs.Names(dir)
	if err != nil {
		return false, ignoreGone(err)
	}
	socket := "socket:[" + strconv.FormatUint(inode, 10) + "]"
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		target, err := procfs.Readlink(dir + "/" + name)
		switch {
		case err == nil && target == socket:
			return true, nil
		case ignoreGone(err) != nil:
			return false, err
		}
	}
	return false, nil
}

// ignoreGone makes nothing of the errnos of a process that is no more, or of a descriptor that it has closed.
func ignoreGone(err error) error {
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}
