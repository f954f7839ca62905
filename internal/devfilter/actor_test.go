package devfilter

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/devrule"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// actorArg starts the test program as a process of a job, which does what it is told on its
// standard input.
const actorArg = "devfilter-actor"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == actorArg {
		act()
		return
	}
	os.Exit(kernfstest.Run(m, testPrefix()))
}

func testPrefix() string { return fmt.Sprintf("hhtest_devfilter_%d", os.Getpid()) }

// order is one line to an actor.
type order struct {
	Do    string   `json:"do"` // open, mknod, hammer, install, probe without rights
	Path  string   `json:"path,omitempty"`
	Flags int      `json:"flags,omitempty"` // of open
	Dev   int      `json:"dev,omitempty"`
	Again []string `json:"again,omitempty"` // what to become first: "fork", "exec", "setsid"

	Denied string `json:"denied,omitempty"` // hammer: opened all the time too, until standard input tells to stop

	V1, V2 string   `json:",omitempty"` // install: the places
	Rules  []string `json:",omitempty"`
}

// answer is one line from an actor.
type answer struct {
	Errno   unix.Errno `json:"errno"`
	Opens   int        `json:"opens"`   // hammer: of Path that succeeded
	Failed  int        `json:"failed"`  // hammer: of Path that did not
	Through int        `json:"through"` // hammer: of Denied that succeeded
	Text    string     `json:"text"`    // of an error that is the answer
	Error   string     `json:"error,omitempty"`
}

func act() {
	in := bufio.NewReader(os.Stdin)
	orders := json.NewDecoder(in)
	for {
		var o order
		if err := orders.Decode(&o); err != nil {
			return
		}
		a := perform(o, orders)
		if err := json.NewEncoder(os.Stdout).Encode(a); err != nil {
			return
		}
	}
}

func perform(o order, orders *json.Decoder) (a answer) {
	if len(o.Again) > 0 {
		return elsewhere(o)
	}
	switch o.Do {
	case "open":
		a.Errno = try(o.Path, o.Flags)
	case "mknod":
		err := unix.Mknod(o.Path, unix.S_IFCHR|0o600, o.Dev)
		errors.As(err, &a.Errno)
	case "hammer":
		hammer(o, orders, &a)
	case "probe without rights":
		runtime.LockOSThread() // rights are a thread's
		header, none := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
		if err := errors.Join(unix.Capset(&header, &none[0]), Probe()); err != nil {
			a.Text = err.Error()
		}
	case "install":
		if err := actInstall(o); err != nil {
			a.Error = err.Error()
		}
	}
	return a
}

func try(path string, flags int) unix.Errno {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err.(unix.Errno)
	}
	unix.Close(fd)
	return 0
}

// hammer answers at once, and again, with what it saw, when the next order comes.
func hammer(o order, orders *json.Decoder, a *answer) {
	json.NewEncoder(os.Stdout).Encode(answer{})
	var wait sync.WaitGroup
	stop := make(chan struct{})
	wait.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if try(o.Path, o.Flags) == 0 {
				a.Opens++
			} else {
				a.Failed++
			}
			if try(o.Denied, o.Flags) != unix.EPERM {
				a.Through++
			}
		}
	})
	var next order
	orders.Decode(&next)
	close(stop)
	wait.Wait()
}

// elsewhere performs o in a process that this one starts; "exec" is what any of them does.
func elsewhere(o order) answer {
	cmd := exec.Command("/proc/self/exe", actorArg)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: o.Again[0] == "setsid"}
	cmd.Stderr = os.Stderr
	o.Again = o.Again[1:]
	text, _ := json.Marshal(o)
	in, err := cmd.StdinPipe()
	if err != nil {
		return answer{Error: err.Error()}
	}
	go func() { in.Write(text); in.Close() }()
	out, err := cmd.Output()
	var a answer
	if err = errors.Join(err, json.Unmarshal(out, &a)); err != nil {
		a.Error = err.Error()
	}
	return a
}

func actInstall(o order) error {
	p := Place{V2: o.V2}
	if o.V1 != "" {
		dir, err := kernfs.Open(o.V1)
		if err != nil {
			return err
		}
		p.V1 = dir
	}
	var rules []devrule.Rule
	for _, text := range o.Rules {
		r, err := devrule.ParseRule(text)
		if err != nil {
			return err
		}
		rules = append(rules, r)
	}
	return Install(p, rules)
}

// actor is a process that takes orders.
type actor struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	enc *json.Encoder
	dec *json.Decoder
}

func startActor(t testing.TB) *actor {
	t.Helper()
	a := &actor{t: t, cmd: exec.Command("/proc/self/exe", actorArg)}
	a.cmd.Stderr = os.Stderr
	in, err := a.cmd.StdinPipe()
	must.NoError(t, err)
	out, err := a.cmd.StdoutPipe()
	must.NoError(t, err)
	a.in, a.enc, a.dec = in, json.NewEncoder(in), json.NewDecoder(out)
	must.NoError(t, a.cmd.Start())
	t.Cleanup(a.stop)
	return a
}

// stop ends the actor, if it has not ended, and takes its status.
func (a *actor) stop() {
	if a.cmd.ProcessState == nil {
		a.cmd.Process.Kill()
		a.cmd.Wait()
	}
}

func (a *actor) send(o order) {
	a.t.Helper()
	if err := a.enc.Encode(o); err != nil {
		a.t.Fatalf("order %+v: %v", o, err)
	}
}

func (a *actor) receive() answer {
	a.t.Helper()
	got := make(chan answer, 1)
	go func() {
		var ans answer
		if err := a.dec.Decode(&ans); err != nil {
			ans.Error = err.Error()
		}
		got <- ans
	}()
	select {
	case ans := <-got:
		if ans.Error != "" {
			a.t.Fatalf("actor: %s", ans.Error)
		}
		return ans
	case <-time.After(60 * time.Second):
		a.stop()
		a.t.Fatal("the actor does not answer")
		return answer{}
	}
}

func (a *actor) do(o order) answer {
	a.t.Helper()
	a.send(o)
	return a.receive()
}
