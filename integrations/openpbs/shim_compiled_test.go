package openpbs_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// compiled is where the hook of captured events, which is called shim, keeps its compiled code.
func (m *hookMoM) compiled() string { return m.at("hooks/shim.pyc") }

// compile has an event put the compiled code there, and returns it.
func (m *hookMoM) compile() []byte {
	m.t.Helper()
	os.Remove(m.compiled())
	if r := m.run(anEvent(m.t, "execjob_attach")); !r.accepted() || r.said != "" {
		m.t.Fatalf("%s%s", r.out, r.said)
	}
	b, err := os.ReadFile(m.compiled())
	must.NoError(m.t, err)
	return b
}

// whole reports whether a file of compiled code is: a line that says of which version, one with the
// sum, the code.
func whole(text []byte) bool {
	parts := bytes.SplitN(text, []byte("\n"), 3)
	if len(parts) < 3 || !bytes.HasPrefix(parts[0], []byte("hookhost.py ")) {
		return false
	}
	sum := new(big.Int).Mod(new(big.Int).SetBytes(parts[2]), big.NewInt(1073741789))
	return fmt.Sprintf("%08x", sum) == string(parts[1])
}

// otherCode makes code that logs "kept" and accepts, and puts it into the file in the place of what
// is there.
const otherCode = `import marshal, sys
path, mode = sys.argv[1], sys.argv[2]
with open(path, "rb") as f:
    version = f.readline()
code = marshal.dumps(compile("import pbs\npbs.logmsg(pbs.LOG_ERROR, 'kept')\npbs.event().accept()\n", "other", "exec"))
with open(path, "wb") as f:
    f.write(version + b"%08x\n" % (int.from_bytes(code, "big") % 1073741789 + (mode == "sum")) + code)
`

// plant puts other code, which says that it runs, in the place of what is kept.
func (m *hookMoM) plant(mode string) []byte {
	m.t.Helper()
	if out, err := exec.Command(m.python, "-c", otherCode, m.compiled(), mode).CombinedOutput(); err != nil {
		m.t.Fatalf("%v\n%s", err, out)
	}
	b, err := os.ReadFile(m.compiled())
	must.NoError(m.t, err)
	return b
}

// Each Python runs what it has compiled at an earlier event, and no other Python's; beside the hook
// there is that one file.
func TestShimKeepsCode(t *testing.T) {
	t.Parallel()
	m := newHookMoM(t)
	answering(t, m, "accept")
	var before []byte
	for _, m.python = range pythons() {
		if !whole(m.compile()) {
			t.Errorf("%s: it is not whole", m.python)
		}
		if i, err := os.Lstat(m.compiled()); err != nil || i.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", m.python, i.Mode(), err)
		}
		planted := m.plant("")
		r := m.run(anEvent(t, "execjob_attach"))
		if now, _ := os.ReadFile(m.compiled()); !r.accepted() || r.said != "error: kept\n" ||
			!bytes.Equal(now, planted) {
			t.Errorf("%s: the kept code was not run: %s%s", m.python, r.out, r.said)
		}
		if before != nil {
			must.NoError(t, os.WriteFile(m.compiled(), before, 0o600))
			m.run(anEvent(t, "execjob_attach")).wantAccepted(t, m.python+" beside the code of another")
			if now, _ := os.ReadFile(m.compiled()); bytes.Equal(now, before) || !whole(now) {
				t.Errorf("%s leaves the code of another", m.python)
			}
		}
		before = planted
	}
	m.wantLeft("shim.CF shim.pyc")
}

// left lists what is in the hooks' folder, and in the one for temporary files besides the events'
// own.
func (m *hookMoM) left() string {
	m.t.Helper()
	var names []string
	for _, dir := range []string{"hooks", "hooks/tmp"} {
		entries, err := os.ReadDir(m.at(dir))
		must.NoError(m.t, err)
		for _, e := range entries {
			if ext := filepath.Ext(e.Name()); !e.IsDir() && ext != ".in" && ext != ".out" && ext != ".err" {
				names = append(names, e.Name())
			}
		}
	}
	return strings.Join(names, " ")
}

func (m *hookMoM) wantLeft(want string) {
	m.t.Helper()
	if left := m.left(); left != want {
		m.t.Errorf("left: %s, want %s", left, want)
	}
}

// Compiled code that is broken or not to be trusted is not run. The shim replaces it where it can.
func TestShimRefusesCode(t *testing.T) {
	t.Parallel()
	ours := os.Geteuid()
	write := func(text []byte) func(*hookMoM, []byte) error {
		return func(m *hookMoM, _ []byte) error { return os.WriteFile(m.compiled(), text, 0o600) }
	}
	for _, tt := range []struct {
		name    string
		prepare func(m *hookMoM, planted []byte) error
		root    bool
		stays   bool
	}{
		{name: "group may write", prepare: func(m *hookMoM, _ []byte) error { return os.Chmod(m.compiled(), 0o620) }},
		{name: "others may write", prepare: func(m *hookMoM, _ []byte) error { return os.Chmod(m.compiled(), 0o602) }},
		{name: "somebody else's",
			prepare: func(m *hookMoM, _ []byte) error { return os.Chown(m.compiled(), ours+1, -1) }, root: true},
		{name: "symbolic link", prepare: func(m *hookMoM, _ []byte) error {
			if err := os.Rename(m.compiled(), m.at("elsewhere")); err != nil {
				return err
			}
			return os.Symlink(m.at("elsewhere"), m.compiled())
		}},
		{name: "fifo", prepare: func(m *hookMoM, _ []byte) error {
			os.Remove(m.compiled())
			return syscall.Mkfifo(m.compiled(), 0o600)
		}},
		{name: "directory", prepare: func(m *hookMoM, _ []byte) error {
			os.Remove(m.compiled())
			return os.Mkdir(m.compiled(), 0o700)
		}, stays: true},
		{name: "empty", prepare: write(nil)},
		{name: "garbage", prepare: write(bytes.Repeat([]byte("x\n"), 5000))},
		{name: "wrong sum", prepare: func(m *hookMoM, _ []byte) error { m.plant("sum"); return nil }},
		{name: "cut off", prepare: func(m *hookMoM, planted []byte) error {
			return os.Truncate(m.compiled(), int64(len(planted)-1))
		}},
		{name: "header alone", prepare: func(m *hookMoM, planted []byte) error {
			return os.Truncate(m.compiled(), int64(bytes.IndexByte(planted, '\n')))
		}},
		{name: "longer", prepare: func(m *hookMoM, planted []byte) error {
			return os.WriteFile(m.compiled(), append(planted, 0), 0o600)
		}},
		{name: "zeros at the end", prepare: func(m *hookMoM, planted []byte) error {
			clear(planted[len(planted)-30:])
			return os.WriteFile(m.compiled(), planted, 0o600)
		}},
		{name: "other digest", prepare: func(m *hookMoM, planted []byte) error {
			i := bytes.IndexByte(planted, ' ') + 1
			planted[i] ^= 1
			return os.WriteFile(m.compiled(), planted, 0o600)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.root && ours != 0 {
				t.Skip("needs root")
			}
			m := newHookMoM(t)
			answering(t, m, "accept")
			m.compile()
			must.NoError(t, tt.prepare(m, m.plant("")))
			m.run(anEvent(t, "execjob_attach")).wantAccepted(t, "the event")
			if tt.stays {
				return
			}
			now, err := os.ReadFile(m.compiled())
			i, _ := os.Lstat(m.compiled())
			if err != nil || !whole(now) || i.Mode() != 0o600 || int(i.Sys().(*syscall.Stat_t).Uid) != ours {
				t.Errorf("not replaced: %v, %d bytes, %v", i, len(now), err)
			}
			m.wantLeft("shim.CF shim.pyc")
		})
	}
}

// An event has its outcome also when the code cannot be kept. Nothing is said or left then.
func TestShimCannotKeepCode(t *testing.T) {
	t.Parallel()
	t.Run("no right to", func(t *testing.T) {
		t.Parallel()
		if os.Getuid() != 0 {
			t.Skip("needs root, to be somebody else")
		}
		m := newHookMoM(t)
		const nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups "
		if exec.Command("sh", "-c", nobody+m.python+" -c 'open(\""+shimPath(t)+"\")'").Run() != nil {
			t.Skip("nobody can run python3 here, or read the shim, or there is no setpriv")
		}
		answering(t, m, "accept")
		os.Chmod(m.socket, 0o666)
		os.Chmod(m.at("hooks/tmp"), 0o777)
		os.Chmod(m.at("logs"), 0o777)
		m.wrap("exec " + nobody + m.python + ` "$@"`)
		m.run(anEvent(t, "execjob_attach")).wantAccepted(t, "the event")
		m.wantLeft("shim.CF")
	})
	// A job's own limit on files, as pbs_mom sets it before a launch, and a full disk are the same
	// to a writer.
	t.Run("no room", func(t *testing.T) {
		t.Parallel()
		m := newHookMoM(t)
		answering(t, m, "accept")
		m.env = []string{"PYTHONDONTWRITEBYTECODE=1"} // which writes what fits
		m.wrap("ulimit -f 8; exec " + m.python + ` "$@"`)
		m.run(anEvent(t, "execjob_launch")).wantAccepted(t, "the event")
		m.wantLeft("shim.CF")
	})
	t.Run("names", func(t *testing.T) {
		t.Parallel()
		for i, name := range []string{"", ".", "..", "../../x", "a b", "ä", strings.Repeat("x", 300), "%s%d", "-o"} {
			m := newHookMoM(t)
			answering(t, m, "accept")
			input := strings.ReplaceAll(anEvent(t, "execjob_attach"), "pbs.event().hook_name=shim\n",
				"pbs.event().hook_name="+name+"\n")
			for range 2 {
				m.run(input).wantAccepted(t, fmt.Sprintf("%d, %q", i, name))
			}
			if left := m.left(); name == "" && left != "shim.CF" {
				t.Errorf("without a name: left: %s", left)
			}
			err := filepath.WalkDir(m.home, func(path string, e fs.DirEntry, err error) error {
				if err == nil && strings.Contains(e.Name(), ".pyc") && filepath.Dir(path) != m.at("hooks") {
					t.Errorf("%q: %s", name, path)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
}

// wrap has the hook run by a shell that prepares something.
func (m *hookMoM) wrap(text string) {
	m.t.Helper()
	wrapper := m.at("wrapper")
	writeScript(m.t, wrapper, "#!/bin/sh\n"+text+"\n")
	m.python = wrapper
}

// writeScript writes a script that can be run at once. Another test's child would inherit the open
// file, and the kernel runs none that somebody may write.
func writeScript(t testing.TB, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte(text), 0o755)
	syscall.ForkLock.RUnlock()
	must.NoError(t, err)
}

// Many first events at a time leave one file, which is whole.
func TestShimCodeCrowd(t *testing.T) {
	t.Parallel()
	m := newHookMoM(t)
	answering(t, m, "accept")
	s := &many{m: m}
	for i := range 40 {
		s.add(fmt.Sprint(i), withAlarm(anEvent(t, "execjob_attach"), 120), m.at("hooks/shim.CF"))
	}
	for name, r := range s.run(20, nil) {
		r.wantAccepted(t, name)
	}
	m.wantLeft("shim.CF shim.pyc")
	m.plant("")
	if r := m.run(anEvent(t, "execjob_attach")); r.said != "error: kept\n" {
		t.Errorf("what is left is not run: %s%s", r.out, r.said)
	}
}

// MoM's alarm may end the hook anywhere while it writes. The file that is there is whole, or it is
// not run. The rest is where MoM cleans up.
func TestShimKilledWhileItKeepsCode(t *testing.T) {
	t.Parallel()
	m := newHookMoM(t)
	answering(t, m, "accept")
	m.compile()
	for i := range 20 {
		os.Remove(m.compiled())
		cmd := exec.Command(m.python, filepath.Join(modules(t), "pbs_python.py"), "--hook", "-i",
			m.at("hooks/tmp/hook_1.in"), "-o", m.at("hooks/tmp/killed.out"), shimPath(t))
		cmd.Dir, cmd.Env = m.at("hooks/tmp"),
			[]string{"PATH=/bin:/usr/bin", "PBS_HOOK_CONFIG_FILE=" + m.at("hooks/shim.CF")}
		must.NoError(t, cmd.Start())
		time.Sleep(time.Duration(i) * 3 * time.Millisecond)
		cmd.Process.Kill()
		cmd.Wait()
		if b, err := os.ReadFile(m.compiled()); err == nil && !whole(b) {
			t.Errorf("after %d: %d bytes that are not whole", i, len(b))
		}
	}
	entries, err := os.ReadDir(m.at("hooks"))
	must.NoError(t, err)
	for _, e := range entries {
		if _, err := strconv.Atoi(strings.TrimPrefix(filepath.Ext(e.Name()), ".")); err == nil {
			t.Errorf("left beside the hook: %s", e.Name())
		}
	}
}
