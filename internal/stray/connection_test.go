package stray

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// FuzzParseRow reads a row of /proc/net/tcp, also as the kernel writes it (get_tcp4_sock of
// net/ipv4/tcp_ipv4.c, get_tcp6_sock of net/ipv6/tcp_ipv6.c).
func FuzzParseRow(f *testing.F) {
	f.Add("   0: 0100007F:0016 0100007F:D0C2 01 00000000:00000000 02:00000000 00000000  1000        0 4711 2 0\n",
		[]byte{127, 0, 0, 1}, uint16(22), uint32(1000), uint64(4711))
	f.Add("  sl  local_address rem_address   st", make([]byte, 16), uint16(0), uint32(0), uint64(0))
	f.Fuzz(func(t *testing.T, text string, addr []byte, port uint16, uid uint32, inode uint64) {
		r, ok := parseRow([]byte(text))
		if ok && (!r.local.IsValid() || !r.remote.IsValid() || r.Inode == 0 || r.UID < 0) {
			t.Errorf("%q: %+v", text, r)
		}
		ip, ok := netip.AddrFromSlice(addr)
		if !ok || inode == 0 {
			return
		}
		var words strings.Builder
		for i := 0; i < len(addr); i += 4 {
			fmt.Fprintf(&words, "%08X", binary.NativeEndian.Uint32(addr[i:]))
		}
		line := fmt.Sprintf("   7: %s:%04X %s:0001 01 00000000:00000000 00:00000000 00000000 %5d 0 %d 1 ffff\n",
			words.String(), port, words.String(), uid, inode)
		want := row{netip.AddrPortFrom(ip.Unmap(), port), netip.AddrPortFrom(ip.Unmap(), 1),
			connection{int(uid), inode}}
		if got, ok := parseRow([]byte(line)); !ok || got != want {
			t.Errorf("%q: %+v, %v, want %+v", line, got, ok, want)
		}
	})
}

// FuzzParseConnection reads the variable SSH_CONNECTION, which its user may have set.
func FuzzParseConnection(f *testing.F) {
	f.Add("10.0.0.1 52000 10.0.0.2 22")
	f.Add("fe80::1%eth0 1 ::ffff:10.0.0.2 22")
	f.Add("a b c d")
	f.Fuzz(func(t *testing.T, text string) {
		o := parseConnection(text)
		if o == nil {
			return
		}
		for _, end := range []string{o.Local, o.Remote} {
			if again, err := netip.ParseAddrPort(end); err != nil || again.String() != end {
				t.Errorf("%q has the end %q: %v, %v", text, end, again, err)
			}
		}
	})
}
