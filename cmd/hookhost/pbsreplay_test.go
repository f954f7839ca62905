package main_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// The events that a running pbs_mom handed to its hooks (testdata/pbs-events) come once more, in
// their order. The jobs ran, one in two chunks, one of an array; one was deleted, and the launch
// of one failed. Events of the host come between them. The session that MoM made for a program,
// and the attached processes, are processes here. Only what cannot be the same on another machine
// is replaced: the owner, MoM's home, the numbers of processes.
func TestPBSEventsReplayed(t *testing.T) {
	must.BesideOthers(t)
	for _, by := range []struct {
		name  string
		means means
	}{{"MoM's files by the shim", byShim}, {"MoM's files by hookhost event", byFile}} {
		t.Run(by.name, func(t *testing.T) {
			m := newMoM(t)
			m.by = by.means
			m.serve()
			r := &replay{mom: m, set: "host"}
			if a := r.play("exechost_startup", nil); !a.accepted ||
				a.set[`vnode_list["pbshost"].resources_available[ncpus]`] == "" {
				t.Errorf("startup: %+v", a)
			}
			for _, set := range []string{"job91_shimonly", "job82", "stock_hook_job82", "array95_1", "twochunk92",
				"qdel83", "abort86"} {
				r.set = set
				t.Run(set, func(t *testing.T) {
					m.t = t
					r.job(t)
				})
				m.t = t
				r.set = "host"
				if a := r.play("exechost_periodic_idle", nil); !a.accepted {
					t.Errorf("periodic: %+v", a)
				}
			}
		})
	}
}

// replay is one way of playing what was captured.
type replay struct {
	*mom
	set     string            // its folder
	numbers map[string]string // of processes, by those that were captured
}

func (r *replay) file(event string) string {
	return filepath.Join("../../testdata/pbs-events", r.set, event+".in")
}

var number = regexp.MustCompile(`\b\d{4,}\b`)

// text is a captured event as it would have been here.
func (r *replay) text(event string) string {
	r.t.Helper()
	b, err := os.ReadFile(r.file(event))
	must.NoError(r.t, err)
	text := strings.NewReplacer("euser=pbstest", "euser=nobody", "egroup=pbstest", "egroup=nogroup",
		"/var/spool/pbs/", r.home+"/").Replace(string(b))
	return number.ReplaceAllStringFunc(text, func(n string) string {
		if now, known := r.numbers[n]; known {
			return now
		}
		return n
	})
}

// play plays an event; with a task, as MoM does it in the session of the job's program.
func (r *replay) play(event string, k *task) answer {
	r.t.Helper()
	if k != nil {
		return k.hook(r.text(event))
	}
	return r.hook(r.text(event))
}

var (
	chunkRes   = regexp.MustCompile(`(ncpus|mem)=(\d+)(?:kb)?\b`)
	execVnode  = regexp.MustCompile(`(?m)^pbs\.event\(\)\.job\.exec_vnode=(.*)$`)
	jobID      = regexp.MustCompile(`(?m)^pbs\.event\(\)\.job\.id=(.*)$`)
	sessionID  = regexp.MustCompile(`(?m)^pbs\.event\(\)\.job\.session_id=(\d+)$`)
	attachedID = regexp.MustCompile(`(?m)^pbs\.event\(\)\.pid=(\d+)$`)
)

func captured(t *testing.T, re *regexp.Regexp, text string) string {
	t.Helper()
	found := re.FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("no %s in %s", re, text)
	}
	return found[1]
}

// job plays the events of a job's life and looks at the kernel behind each of them.
func (r *replay) job(t *testing.T) {
	r.numbers = map[string]string{}
	begin := r.text("execjob_begin")
	id := captured(t, jobID, begin)
	asked := map[string]int{}
	for _, res := range chunkRes.FindAllStringSubmatch(captured(t, execVnode, begin), -1) {
		n, err := strconv.Atoi(res[2])
		must.NoError(t, err)
		asked[res[1]] += n
	}
	r.endAtLast(pbsJob{id: id})
	a := r.play("execjob_begin", nil)
	if !a.accepted || a.used("mem") != "0kb" || a.used("cput") != "00:00:00" || a.used("cpupercent") != "0" {
		t.Fatalf("begin: %+v", a)
	}
	if got := r.limit(id); got != int64(asked["mem"])<<10 {
		t.Errorf("limit %d, want %dkb", got, asked["mem"])
	}

	k := r.fork()
	session := captured(t, sessionID, r.text("execjob_launch"))
	r.numbers[session] = strconv.Itoa(k.pid())
	if exists(r.file("execjob_prologue")) { // the stock hook has none
		if a := r.play("execjob_prologue", k); !a.accepted {
			t.Errorf("prologue: %+v", a)
		}
	}
	text := r.text("execjob_launch")
	a = r.play("execjob_launch", k)
	if !a.accepted {
		t.Fatalf("launch: %+v", a)
	}
	r.launched(t, text, a)
	if !inJob(t, k.pid(), id) || allowed(t, k.pid()) != asked["ncpus"] {
		t.Errorf("the task is in the job: %v; it has %d cpus, want %d", inJob(t, k.pid(), id), allowed(t, k.pid()),
			asked["ncpus"])
	}
	if exists(r.file("execjob_abort")) { // its launch was refused by another hook
		r.aborted(t, id)
		return
	}
	k.exec("sleep", "1000")
	members := []int{k.pid()}
	if exists(r.file("execjob_attach")) {
		p := sleeper(t, ownerUID)
		r.numbers[captured(t, attachedID, r.text("execjob_attach"))] = strconv.Itoa(p.Process.Pid)
		if a := r.play("execjob_attach", nil); !a.accepted || !inJob(t, p.Process.Pid, id) {
			t.Errorf("attach: %+v", a)
		}
		members = append(members, p.Process.Pid)
	}
	if exists(r.file("execjob_postsuspend")) {
		if a := r.play("execjob_postsuspend", nil); !a.accepted || !r.frozen(id) {
			t.Errorf("postsuspend: %+v, frozen: %v", a, r.frozen(id))
		}
		if a := r.play("execjob_preresume", nil); !a.accepted || r.frozen(id) {
			t.Errorf("preresume: %+v, frozen: %v", a, r.frozen(id))
		}
	}
	if set := r.set; strings.HasPrefix(id, "91.") { // whom the captured periodic lists
		r.set = "host"
		a := r.play("exechost_periodic_with_jobs", nil)
		r.set = set
		for _, name := range []string{"mem", "cput", "cpupercent"} {
			if a.set[`job_list["`+id+`"].resources_used[`+name+`]`] == "" {
				t.Errorf("periodic tells no %s: %+v", name, a.set)
			}
		}
	}
	if exists(r.file("execjob_preterm")) {
		if a := r.play("execjob_preterm", nil); !a.accepted {
			t.Errorf("preterm: %+v", a)
		}
	}
	for _, pid := range members {
		if !inJob(t, pid, id) {
			t.Errorf("pid %d is outside of the job", pid)
		}
	}
	a = r.play("execjob_epilogue", nil)
	// A number; the kernel may still say 0 of a job this short (memcg counts half a megabyte
	// before it tells).
	kb(t, a, "mem")
	if !a.accepted || !durationForm.MatchString(a.used("cput")) {
		t.Errorf("epilogue: %+v", a)
	}
	k.over()
	if a := r.play("execjob_end", nil); !a.accepted || len(r.dirsOf(id)) > 0 {
		t.Errorf("end: %+v; left %v", a, r.dirsOf(id))
	}
	for _, pid := range members[1:] { // the test's own children
		must.Eventually(t, "what was attached is dead", func() bool {
			return state(pid) == "" || state(pid) == "Z"
		})
	}
	rep := decodeReport(t, r.hookhost("report", id, "--format=json").stdout)
	if rep.Owner != "nobody" || rep.ExitStatus == nil {
		t.Errorf("report: %+v", rep)
	}
}

// launched checks that a launch leaves all as it was, but for what programs are told of their
// devices.
func (r *replay) launched(t *testing.T, text string, a answer) {
	t.Helper()
	if r.by != byShim {
		if a.set["set_env.CUDA_DEVICE_ORDER"] != "PCI_BUS_ID" {
			t.Errorf("launch: %+v", a)
		}
		return
	}
	_, env, _ := strings.Cut(text, "pbs.event().env=\"\"\"")
	env, _, _ = strings.Cut(env, "\"\"\"\n")
	was, now := segments(env), segments(a.set["env"])
	for _, s := range was {
		if !slices.Contains(now, s) && !strings.HasPrefix(s, "CUDA_VISIBLE_DEVICES=") {
			t.Errorf("%q is not in the environment any more", s)
		}
	}
	if v, found := variable(a.set["env"], "CUDA_VISIBLE_DEVICES"); !found || v != "" {
		t.Errorf("CUDA_VISIBLE_DEVICES=%q, there: %v", v, found)
	}
	program := regexp.MustCompile(`(?m)^pbs\.event\(\)\.(progname|argv\[\d\])=(.*)$`)
	for _, line := range program.FindAllStringSubmatch(text, -1) {
		if a.set[line[1]] != line[2] {
			t.Errorf("%s = %q, was %q", line[1], a.set[line[1]], line[2])
		}
	}
}

// aborted plays the end of a job whose program was never started.
func (r *replay) aborted(t *testing.T, id string) {
	t.Helper()
	if a := r.play("execjob_abort", nil); !a.accepted || len(r.dirsOf(id)) > 0 {
		t.Errorf("abort: %+v; left %v", a, r.dirsOf(id))
	}
	for _, event := range []string{"execjob_epilogue", "execjob_end"} {
		if a := r.play(event, nil); !a.accepted || len(r.dirsOf(id)) > 0 {
			t.Errorf("%s: %+v; left %v", event, a, r.dirsOf(id))
		}
	}
}

// segments splits the environment of an event where MoM does: at commas that no backslash is
// before (openpbs attr_func.c).
func segments(text string) []string {
	var list []string
	start := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case ',':
			list, start = append(list, text[start:i]), i+1
		}
	}
	return append(list, text[start:])
}

func variable(text, name string) (value string, found bool) {
	for _, s := range segments(text) {
		if v, ok := strings.CutPrefix(s, name+"="); ok {
			return v, true
		}
	}
	return "", false
}

// PBS's own forms (openpbs.md 3.6): sizes in kb, durations, whole numbers.
var (
	kbForm       = regexp.MustCompile(`^\d+kb$`)
	durationForm = regexp.MustCompile(`^\d+:\d\d:\d\d$`)
)

func kb(t *testing.T, a answer, name string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSuffix(a.used(name), "kb"))
	if err != nil || !kbForm.MatchString(a.used(name)) {
		t.Errorf("%s = %q, want kb", name, a.used(name))
	}
	return n
}
