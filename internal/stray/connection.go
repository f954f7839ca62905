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

// ErrNoConnection says that this host has no such connection, or more than one.
var ErrNoConnection = errors.New("no such connection")

// Connection is the end of a TCP connection that this host holds.
type Connection struct {
	UID   int    // who made it
	Inode uint64 // of its socket
}

// established is TCP_ESTABLISHED of include/net/tcp_states.h.
const established = "01"

// FindConnection returns this host's end of a TCP connection, from local to remote as this host
// sees them. FindConnection reads all of /proc/net/tcp and tcp6, which are of the network namespace
// of the caller. FindConnection fails with ErrNoConnection.
func FindConnection(procfs *kernfs.FS, local, remote netip.AddrPort) (Connection, error) {
	fail := func(err error) (Connection, error) {
		return Connection{}, fmt.Errorf("connection from %s to %s: %w", local, remote, err)
	}
	var found []Connection
	err := eachRow(procfs, func(row []byte) {
		if c, ok := matches(row, local, remote); ok {
			found = append(found, c)
		}
	})
	if err != nil {
		return fail(err)
	}
	if len(found) != 1 {
		return fail(ErrNoConnection)
	}
	return found[0], nil
}

// eachRow calls do with each row of the tables of connections.
func eachRow(procfs *kernfs.FS, do func(row []byte)) error {
	for _, file := range []string{"net/tcp", "net/tcp6"} {
		text, err := procfs.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) { // a kernel without IPv6
			continue
		}
		if err != nil {
			return err
		}
		for row := range bytes.Lines(text) {
			do(row)
		}
	}
	return nil
}

// heldBy returns the connection that the process pid, an sshd, has from its client; nil where it
// has none, or more than one.
func heldBy(procfs *kernfs.FS, pid int) (*hostapi.Origin, error) {
	dir := strconv.Itoa(pid) + "/fd"
	names, err := procfs.Names(dir)
	if err != nil {
		return nil, ignoreGone(err)
	}
	sockets := map[string]bool{}
	for _, name := range names {
		target, err := procfs.Readlink(dir + "/" + name)
		if ignoreGone(err) != nil {
			return nil, err
		}
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			sockets[strings.TrimSuffix(inode, "]")] = true
		}
	}
	if len(sockets) == 0 {
		return nil, nil
	}
	var found []*hostapi.Origin
	err = eachRow(procfs, func(row []byte) {
		fields := bytes.Fields(row)
		if len(fields) < 10 || string(fields[3]) != established || !sockets[string(fields[9])] {
			return
		}
		local, lok := end(fields[1])
		remote, rok := end(fields[2])
		if lok && rok {
			found = append(found, connection(local, remote))
		}
	})
	if err != nil || len(found) != 1 {
		return nil, err
	}
	return found[0], nil
}

// matches reads a row "sl local_address rem_address st queues timer retransmits uid timeout inode
// ...". The heading is none.
func matches(row []byte, local, remote netip.AddrPort) (Connection, bool) {
	fields := bytes.Fields(row)
	if len(fields) < 10 || string(fields[3]) != established || !isEnd(fields[1], local) || !isEnd(fields[2], remote) {
		return Connection{}, false
	}
	uid, uerr := strconv.ParseUint(string(fields[7]), 10, 32)
	inode, ierr := strconv.ParseUint(string(fields[9]), 10, 64)
	return Connection{UID: int(uid), Inode: inode}, uerr == nil && ierr == nil && inode > 0
}

// isEnd tells whether an address of the table is that end. The zone of an address that is a link's
// own is not in the table.
func isEnd(text []byte, want netip.AddrPort) bool {
	_, port, _ := bytes.Cut(text, []byte{':'})
	if n, err := strconv.ParseUint(string(port), 16, 16); err != nil || uint16(n) != want.Port() {
		return false
	}
	is, ok := end(text)
	return ok && is.Addr() == want.Addr().Unmap().WithZone("")
}

// end reads an address of the table: words of 32 bits in the machine's own order, and a port.
func end(text []byte) (netip.AddrPort, bool) {
	host, port, ok := bytes.Cut(text, []byte{':'})
	n, err := strconv.ParseUint(string(port), 16, 16)
	if !ok || err != nil {
		return netip.AddrPort{}, false
	}
	raw := make([]byte, hex.DecodedLen(len(host)))
	if _, err := hex.Decode(raw, host); err != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	addr, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), ok
}

// Holds tells whether the process pid has a descriptor of the socket. A process that is gone has
// none. Holds stops when ctx ends: a user may have millions of descriptors.
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

// ignoreGone makes nothing of the errnos of a process that is no more, or of a descriptor that it
// has closed.
func ignoreGone(err error) error {
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}
