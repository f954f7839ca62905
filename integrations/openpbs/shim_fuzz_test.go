package openpbs_test

import (
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

type netConn = net.Conn

func pid() string { return strconv.Itoa(os.Getpid()) }

// random makes events and answers by the hundred; each seed makes the same ones.
type random struct{ *rand.Rand }

func newRandom(seed uint64) random { return random{rand.New(rand.NewPCG(seed, 7))} }

func (r random) one(of ...string) string { return of[r.IntN(len(of))] }

// text is a value: mostly harmless, else what breaks readers.
func (r random) text() string {
	switch r.IntN(6) {
	case 0:
		return r.one("", " ", "\n", "\\", ",", `"""`, "'", "=", "[", "]", "\xff\xfe", "ä", "\u2028", "\x00", "\x1b[31m",
			"None", "-1", "99999999999999999999", "1e400", "nan", "@x",
			"pbs.event().alarm=99999", "\npbs.event().accept=True", "../../x", "__class__", "_readonly", "offline",
			"%s%n", strings.Repeat("x", 5000))
	case 1:
		b := make([]byte, r.IntN(20))
		for i := range b {
			b[i] = byte(r.IntN(256))
		}
		return string(b)
	case 2:
		return strconv.Itoa(r.IntN(1000)) + r.one("", "kb", "mb", "b", ":30", ".5")
	}
	return r.one("pbshost", "pbshost[0]", "91.pbshost", "mem", "cput", "ncpus", "resources_available", "resources_used",
		"state", "sharing", "comment", "PATH", "A", "x y", "1", "4gb", "true")
}

var usersLine = regexp.MustCompile(`^pbs\.event\(\)\.(job\.[^i]|vnode_list|job_list|progname|argv|env)`)

// event changes what users have a part in: lines of the job, of vnodes and of the program are
// dropped, doubled, given other values.
func (r random) event(input string) string {
	lines := strings.Split(strings.TrimSuffix(input, "\n"), "\n")
	for range r.IntN(6) {
		i := r.IntN(len(lines))
		key, _, _ := strings.Cut(lines[i], "=")
		if !usersLine.MatchString(key) || strings.HasSuffix(lines[i], `"""`) {
			continue
		}
		// which MoM's own writer cannot write
		text := func() string { return strings.NewReplacer("\x00", "", `"""`, "").Replace(r.text()) }
		switch r.IntN(5) {
		case 0:
			lines = append(lines[:i], lines[i+1:]...)
		case 1:
			lines[i] = key + "=" + text()
		case 2:
			lines[i] += "\n" + lines[i]
		case 3:
			lines[i] += text()
		case 4:
			lines[i] = `pbs.event().env="""` + text() + "=" + text() + `"""` + "\n" + lines[i]
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

var verbs = map[string]int{"reject": 1, "rerun": 0, "delete": 0, "hold": 0, "progname": 1, "argv": 0, "arg": 1,
	"setenv": 2, "unsetenv": 1, "used": 4, "vnode": 5,
	"offline": 2, "online": 2, "restart": 0, "log": 2, "ask": 0, "accept": 0, "end": 0, "explode": 1}

// answer is a whole answer in HTTP, or what is left of one.
func (r random) answer() string {
	names := []string{"rerun", "delete", "hold", "progname", "argv", "arg", "setenv", "unsetenv", "used", "used",
		"vnode", "vnode", "offline", "online", "restart", "log"}
	var fields []string
	for range r.IntN(8) {
		verb := names[r.IntN(len(names))]
		fields = append(fields, verb)
		for i := range verbs[verb] {
			switch {
			case i == 0 && verb == "used":
				fields = append(fields, r.one("", "", "91.pbshost", r.text()))
			case i == 2 && verb == "used" || i == 3 && verb == "vnode":
				fields = append(fields, r.one("long", "float", "size", "string", "duration", "boolean", r.text()))
			default:
				fields = append(fields, r.text())
			}
		}
	}
	if r.IntN(8) == 0 {
		fields = append(fields, r.one("ask", "end", "explode", r.text()))
	}
	fields = append(fields, r.one("accept", "accept", "reject"))
	if fields[len(fields)-1] == "reject" {
		fields = append(fields, r.text())
	}
	body := changes(fields...)
	if r.IntN(8) == 0 {
		body = body[:r.IntN(len(body))]
	}
	if r.IntN(8) == 0 {
		b := []byte(body)
		for range 1 + r.IntN(3) {
			if len(b) > 0 {
				b[r.IntN(len(b))] = byte(r.IntN(256))
			}
		}
		body = string(b)
	}
	status, kind, length := "200 OK", changesType, strconv.Itoa(len(body))
	switch r.IntN(20) {
	case 0:
		status = r.one("500 Internal Server Error", "404 Not Found", "999", "", "200", "200 \xff")
	case 1:
		kind = r.one("", "text/plain", "application/json", changesType+"; charset=utf-8", "\xff")
	case 2:
		length = r.one("", "0", "-1", "1e3", "99999999999999999999", "\xff", " 12 ")
	case 3:
		return r.text()
	}
	head := fmt.Sprintf("HTTP/1.%s %s\r\nContent-Type: %s\r\n", r.one("0", "1"), status, kind)
	if r.IntN(4) > 0 {
		head += "Content-Length: " + length + "\r\n"
	}
	answer := head + "\r\n" + body
	if r.IntN(12) == 0 {
		answer = answer[:r.IntN(len(answer))]
	}
	return answer
}

var environment = regexp.MustCompile(`(?s)pbs\.event\(\)\.env=""".*"""\n`) // the only text of many lines

// A hundred random events of each kind, with random answers, whole, broken and hostile: never an
// exception, always an outcome, always in time.
func TestShimFuzz(t *testing.T) {
	t.Parallel()
	m := newHookMoM(t)
	must.NoError(t, os.WriteFile(m.at("server"), []byte("pbshost\tfree\tx\npbshost[0]\toffline\tpbshost"),
		0o600))
	m.env = []string{"PBS_STANDIN_SERVER=" + m.at("server")}
	startDaemon(t, m.socket, true, func(c net.Conn, r fakeRequest) {
		h := fnv.New64a()
		io.WriteString(h, r.body)
		io.WriteString(h, r.head.Get("Hookhost-Asked"))
		io.WriteString(c, newRandom(h.Sum64()).answer())
	})
	each := 100
	if testing.Short() {
		each = 10
	}
	s := &many{m: m}
	for k, e := range hookEvents {
		for i := range each {
			input := newRandom(uint64(k*1000 + i)).event(withAlarm(anEvent(t, e.name), 60))
			s.add(fmt.Sprintf("%s_%d", e.name, i), input, m.at("hooks/shim.CF"))
		}
	}
	accepted, rejected := 0, 0
	for name, r := range s.run(3, nil) {
		if r.accepted() {
			accepted++
		} else {
			rejected++
		}
		out := environment.ReplaceAllString(r.out, "")
		for line := range strings.Lines(out) { // what a value brought in would be MoM's next line
			if !strings.HasPrefix(line, "pbs.") || !strings.HasSuffix(line, "\n") {
				t.Errorf("%s: a line of its own: %q\n%s", name, line, r.out)
			}
		}
		if n := strings.Count("\n"+out, "\npbs.event().accept="); n != 1 {
			t.Errorf("%s: accept is said %d times:\n%s", name, n, r.out)
		}
	}
	t.Logf("%d accepted, %d rejected", accepted, rejected)
	if accepted < each || rejected < each {
		t.Errorf("%d accepted, %d rejected: the answers are not random enough", accepted, rejected)
	}
}
