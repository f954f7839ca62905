package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// dumps dumps core when it gets SIGTERM, with some MiB that it has written to; the rest of its job
// does not end by SIGTERM.
const dumps = `
import os, resource, signal, sys
resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
pid = os.fork()
if pid == 0:
    block = bytearray(os.urandom(8 << 20))
    signal.signal(signal.SIGTERM, lambda number, frame: os.abort())
    while True: signal.pause()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("dumps", pid, flush=True)
while True: signal.pause()
`

// slowly is a handler of core dumps (core(5)). The handler takes the dump from the kernel as
// slowly as it is told to. Then it writes to DIR how much there was and whether that was all.
const slowly = `#!/usr/bin/python3
import os, sys, time
dir, pid = sys.argv[1], sys.argv[2]
seconds = float(open(dir + "/seconds").read())
begin, n, data = time.monotonic(), 0, b""
os.set_blocking(0, True)
while True:
    b = os.read(0, 1 << 16)
    if not b: break
    if n == 0:
        data = b
        open(dir + "/begun." + pid, "w").close()
        time.sleep(seconds) # the kernel waits: a pipe holds no dump
    n += len(b)
# Where the last segment ends is in the program headers (elf(5)).
import struct
off, = struct.unpack_from("<Q", data, 32)
size, count = struct.unpack_from("<HH", data, 54)
end = 0
for i in range(count):
    kind, flags, at, va, pa, filesz = struct.unpack_from("<IIQQQQ", data, off + i * size)
    end = max(end, at + filesz)
with open(dir + "/tmp." + pid, "w") as f:
    f.write("%d %d" % (n, end))
os.rename(dir + "/tmp." + pid, dir + "/done." + pid)
`

// A process that dumps core when its job's time is over is left to it for core_dump_grace, and no
// longer. The kernel's own word for it is what counts here: where cores go is a setting of the
// whole machine.
func TestCoreDumpIsSpared(t *testing.T) {
	if !inGuest() {
		kernfstest.Elsewhere(t, "no guest of the laboratory: where this machine's core dumps go is not the test's "+
			"to set")
	}
	const setting = "/proc/sys/kernel/core_pattern"
	before, err := os.ReadFile(setting)
	must.NoError(t, err)
	defer func() {
		if err := os.WriteFile(setting, before, 0); err != nil {
			t.Error(err)
		}
	}()
	for _, tt := range []struct {
		name    string
		grace   int // core_dump_grace, in seconds
		handler int // how long the handler keeps the kernel waiting
		whole   bool
	}{{"a dump in time", 180, 10, true}, {"one that takes too long", 10, 60, false}} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t, fmt.Sprintf("[walltime]\ncore_dump_grace = \"%ds\"", tt.grace))
			n.serve()
			handler := filepath.Join(n.dir, "slowly")
			for name, text := range map[string]string{"slowly": slowly, "seconds": strconv.Itoa(tt.handler)} {
				must.NoError(t, os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o755))
			}
			pattern := fmt.Sprintf("|%s %s %%P", handler, n.dir)
			must.NoError(t, os.WriteFile(setting, []byte(pattern), 0))
			if got, err := os.ReadFile(setting); err != nil || strings.TrimSpace(string(got)) != pattern {
				t.Fatalf("core_pattern is %q, want %q: %v", got, pattern, err)
			}
			r := n.hookhost("run", "-l", fmt.Sprint("walltime=", enough(3)), "-l", "kill_delay=2", "--report=json",
				"--", "python3", "-c", dumps)
			rep := r.report(t)
			said := regexp.MustCompile(`dumps (\d+)`).FindStringSubmatch(r.stdout)
			if said == nil {
				t.Fatalf("%+v", r)
			}
			if !exists(filepath.Join(n.dir, "begun."+said[1])) {
				t.Fatalf("the kernel has begun no dump; notes %q", rep.Notes)
			}
			notes := strings.Join(rep.Notes, "\n")
			if want := fmt.Sprintf("SIGKILL waits %v at most for 1 of its processes to write a core dump",
				time.Duration(tt.grace)*time.Second); !strings.Contains(notes, want) {
				t.Errorf("notes %q, want %q", rep.Notes, want)
			}
			done := filepath.Join(n.dir, "done."+said[1])
			must.Eventually(t, "the handler is through", func() bool { return exists(done) })
			text, err := os.ReadFile(done)
			must.NoError(t, err)
			var size, want int
			if _, err := fmt.Sscan(string(text), &size, &want); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			t.Logf("%d bytes of %d; notes %q", size, want, rep.Notes)
			if whole := size >= want && size > 8<<20; whole != tt.whole {
				t.Errorf("the dump has %d bytes of %d; whole %v, want %v", size, want, whole, tt.whole)
			}
		})
	}
}
