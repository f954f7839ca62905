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
	"strings"
	"syscall"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
)

// errNoConnection says that this host has no such connection, or more than one.
var errNoConnection = errors.New("no such connection")

// connection is the end of a TCP connection that this host holds.
type connection struct {
	UID   int    // who made it
	Inode uint64 // of its socket
}

// row is a connection of this host's tables, with its ends as this host sees them.
type row struct {
	local, remote netip.AddrPort
	connection
}

// findConnection returns this host's end of a TCP connection, from local to remote as this host
// sees them. findConnection reads all of /proc/net/tcp and tcp6, which are of the network namespace
// of the caller. findConnection fails with errNoConnection.
func findConnection(procfs *kernfs.FS, local, remote netip.AddrPort) (connection, error) {
	from, to := plain(local), plain(remote)
	found, err := rows(procfs, func(r row) bool { return r.local == from && r.remote == to })
	if err == nil && len(found) != 1 {
		err = errNoConnection
	}
	if err != nil {
		return connection{}, fmt.Errorf("connection from %s to %s: %w", local, remote, err)
	}
	return found[0].connection, nil
}

// plain is an end as the tables have it: without the zone of an address that is a link's own.
func plain(end netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(end.Addr().Unmap().WithZone(""), end.Port())
}

// heldBy returns the connection that the process pid, an sshd, has from its client, as the client
// sees it. The result is nil where it has none, or more than one.
func heldBy(procfs *kernfs.FS, pid int) (*hostapi.Origin, error) {
	held := map[uint64]bool{}
	if err := sockets(procfs, pid, func(inode uint64) bool { held[inode] = true; return true }); err != nil {
		return nil, err
	}
	if len(held) == 0 {
		return nil, nil
	}
	found, err := rows(procfs, func(r row) bool { return held[r.Inode] })
	if err != nil || len(found) != 1 {
		return nil, err
	}
	return &hostapi.Origin{Local: found[0].remote.String(), Remote: found[0].local.String()}, nil
}

// established is TCP_ESTABLISHED of include/net/tcp_states.h.
const established = "01"

// rows returns the established connections of this host's tables that are wanted.
func rows(procfs *kernfs.FS, want func(row) bool) (found []row, err error) {
	for _, file := range []string{"net/tcp", "net/tcp6"} {
		text, err := procfs.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) { // a kernel without IPv6
			continue
		}
		if err != nil {
			return nil, err
		}
		for line := range bytes.Lines(text) {
			if r, ok := parseRow(line); ok && want(r) {
				found = append(found, r)
			}
		}
	}
	return found, nil
}

// parseRow reads a row "sl local_address rem_address st queues timer retransmits uid timeout inode
// ...". The heading is none, nor is a row without a socket.
func parseRow(line []byte) (r row, ok bool) {
	fields := bytes.Fields(line)
	if len(fields) < 10 || string(fields[3]) != established {
		return row{}, false
	}
	uid, uidErr := strconv.ParseUint(string(fields[7]), 10, 32)
	inode, inodeErr := strconv.ParseUint(string(fields[9]), 10, 64)
	local, isLocal := end(fields[1])
	remote, isRemote := end(fields[2])
	r = row{local, remote, connection{UID: int(uid), Inode: inode}}
	return r, isLocal && isRemote && uidErr == nil && inodeErr == nil && inode > 0
}

// end reads an address of the table: words of 32 bits in the machine's own order, and a port.
func end(text []byte) (netip.AddrPort, bool) {
	host, port, ok := bytes.Cut(text, []byte{':'})
	n, err := strconv.ParseUint(string(port), 16, 16)
	if !ok || err != nil {
		return netip.AddrPort{}, false
	}
	var room [16]byte
	raw := room[:min(hex.DecodedLen(len(host)), len(room))]
	if len(host) != 2*len(raw) || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	if _, err := hex.Decode(raw, host); err != nil {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	addr, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), ok
}

// holds reports whether the process pid has a descriptor of the socket. A process that is gone has
// none. holds stops when ctx ends: a user may have millions of descriptors.
func holds(ctx context.Context, procfs *kernfs.FS, pid int, inode uint64) (found bool, err error) {
	err = sockets(procfs, pid, func(i uint64) bool {
		found = i == inode
		return !found && ctx.Err() == nil
	})
	if err == nil && !found {
		err = ctx.Err()
	}
	return found, err
}

// sockets calls do with the inode of each socket that the process pid has a descriptor of, until do
// returns false. A process that is gone has none.
func sockets(procfs *kernfs.FS, pid int, do func(inode uint64) bool) error {
	dir := strconv.Itoa(pid) + "/fd"
	names, err := procfs.Names(dir)
	if err != nil {
		return ignoreGone(err)
	}
	for _, name := range names {
		target, err := procfs.Readlink(dir + "/" + name)
		if ignoreGone(err) != nil {
			return err
		}
		text, is := strings.CutPrefix(target, "socket:[")
		inode, err := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 64)
		if is && err == nil && !do(inode) {
			return nil
		}
	}
	return nil
}

// ignoreGone makes nothing of the errnos of a process that is no more, or of a descriptor that it
// has closed.
func ignoreGone(err error) error {
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}
