//go:build openpbs

package openpbs_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// withCgswap has the server fill in cgswap until the test ends. The server forgets the test's jobs,
// or it would keep the resource.
func withCgswap(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		on(t, nodes[0], `qmgr -c 'delete hook hookhost_cgswap'
ids=$(qselect -x -u alice -s F); [ -z "$ids" ] || qdel -x -W force $ids
for i in $(seq 1000); do qmgr -c 'delete resource cgswap' 2>/dev/null && exit 0; sleep 0.1; done; exit 1`)
	})
	on(t, nodes[0], "hookhost openpbs install --cgswap")
}

// memories are what a job asks for of mem, vmem and cgswap, and its select.
func (j *job) memories() string {
	list := j.attributes().ResourceList
	var all []string
	for _, name := range []string{"mem", "vmem", "cgswap", "select"} {
		if v, there := list[name]; there {
			all = append(all, fmt.Sprintf("%s=%v", name, v))
		}
	}
	return strings.Join(all, " ")
}

func TestCgswapIsFilledInAtSubmission(t *testing.T) {
	withCgswap(t)
	for options, want := range map[string]string{
		"-l select=1:ncpus=1:mem=100mb:vmem=150mb": "mem=100mb vmem=150mb cgswap=51200kb " +
			"select=1:ncpus=1:mem=100mb:vmem=150mb:cgswap=51200kb",
		"-l select=ncpus=1:mem=1gb:vmem=1gb": "mem=1gb vmem=1gb cgswap=0kb " +
			"select=ncpus=1:mem=1gb:vmem=1gb:cgswap=0kb",
		"-l select=2:ncpus=1:mem=100mb:cgswap=50mb+1:vmem=1gb:cgswap=0": "" +
			"mem=1253376kb vmem=1355776kb cgswap=102400kb " +
			"select=2:ncpus=1:mem=100mb:cgswap=50mb:vmem=153600kb+1:vmem=1gb:cgswap=0:mem=1048576kb",
		"-l select=1:mem=100mb:vmem=150mb:cgswap=50mb": "mem=100mb vmem=150mb cgswap=50mb " +
			"select=1:mem=100mb:vmem=150mb:cgswap=50mb",
		"-l select=1:ncpus=1+1:mem=100mb+1": "mem=100mb select=1:ncpus=1+1:mem=100mb+1",
		"-l mem=100mb,vmem=150mb": "mem=100mb vmem=150mb cgswap=51200kb " +
			"select=1:cgswap=51200kb:mem=100mb:ncpus=1:vmem=150mb",
		"-l vmem=150mb,cgswap=50mb": "mem=102400kb vmem=150mb cgswap=50mb " +
			"select=1:cgswap=50mb:mem=102400kb:ncpus=1:vmem=150mb",
		"-l mem=100mb": "mem=100mb select=1:mem=100mb:ncpus=1",
		"-l ncpus=1":   "select=1:ncpus=1",
	} {
		if got := qsub(t, "alice", "-h "+options, "true").memories(); got != want {
			t.Errorf("qsub %s: %s\nwant %s", options, got, want)
		}
	}
}

func TestContradictoryMemoryIsRefusedAtSubmission(t *testing.T) {
	withCgswap(t)
	for options, want := range map[string]string{
		"-l select=1:mem=200mb:vmem=150mb":             "invalid specification: mem>vmem",
		"-l mem=200mb,vmem=150mb":                      "invalid specification: mem>vmem",
		"-l select=1:cgswap=200mb:vmem=150mb":          "invalid specification: mem<=0",
		"-l select=1:mem=100mb:vmem=150mb:cgswap=60mb": "specify only 2 of mem/vmem/cgswap",
		"-l mem=100mb,vmem=150mb,cgswap=60mb":          "specify only 2 of mem/vmem/cgswap",
		"-l select=1:ncpus=1+1:mem=banana:vmem=150mb":  "Illegal attribute or resource value",
	} {
		_, err := output("alice", nodes[0], "qsub -h "+options+" -- /bin/true")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("qsub %s: %v, want %q", options, err, want)
		}
	}
}

func TestCgswapFollowsWhatQalterChanges(t *testing.T) {
	withCgswap(t)
	for submitted, changes := range map[string][][2]string{
		"-l mem=100mb,vmem=150mb": {
			{"-l walltime=60", "mem=100mb vmem=150mb cgswap=51200kb"},
			{"-l vmem=250mb", "mem=100mb vmem=250mb cgswap=153600kb"},
			{"-l mem=150mb", "mem=150mb vmem=250mb cgswap=102400kb"},
			{"-l cgswap=10mb", "mem=150mb vmem=163840kb cgswap=10mb"},
			{"-l mem=1gb,vmem=2gb", "mem=1gb vmem=2gb cgswap=1048576kb"},
		},
		"-l select=1:mem=100mb:vmem=150mb": {
			{"-l walltime=60", "mem=100mb vmem=150mb cgswap=51200kb select=1:mem=100mb:vmem=150mb:cgswap=51200kb"},
			{"-l select=1:mem=100mb:vmem=200mb", "mem=100mb vmem=200mb cgswap=102400kb " +
				"select=1:mem=100mb:vmem=200mb:cgswap=102400kb"},
			{"-l select=2:mem=50mb", "mem=100mb vmem=200mb select=2:mem=50mb"}, // vmem is what PBS itself leaves
		},
		"-l mem=100mb": {{"-l vmem=110mb", "mem=100mb vmem=110mb cgswap=10240kb"}},
	} {
		j := qsub(t, "alice", "-h "+submitted, "true")
		for _, c := range changes {
			as(t, "alice", nodes[0], "qalter "+c[0]+" "+j.id)
			if got := j.memories(); !strings.HasPrefix(got, c[1]+" ") && got != c[1] {
				t.Errorf("qsub %s, then qalter %s: %s\nwant %s", submitted, c[0], got, c[1])
			}
		}
		if _, err := output("alice", nodes[0], "qalter -l mem=9tb "+j.id); err == nil {
			t.Errorf("qsub %s: qalter -l mem=9tb is taken", submitted)
		}
	}
}

// A server without the resource takes jobs as ever.
func TestCgswapHookWithoutTheResourceRefusesNobody(t *testing.T) {
	withCgswap(t)
	on(t, nodes[0], "qmgr -c 'delete resource cgswap'")
	t.Cleanup(func() { on(t, nodes[0], "qmgr -c 'create resource cgswap type=size,flag=nh'") })
	for _, options := range []string{"-l select=1:mem=100mb:vmem=150mb", "-l mem=100mb,vmem=150mb"} {
		if got := qsub(t, "alice", "-h "+options, "true").memories(); strings.Contains(got, "cgswap") {
			t.Errorf("qsub %s: %s", options, got)
		}
	}
}

func TestServerKnowsTheSwapOfANode(t *testing.T) {
	withCgswap(t)
	node := nodes[0]
	settings(t, "memsw.manage_cgswap = true", node)
	t.Cleanup(func() { on(t, nodes[0], "qmgr -c 'unset node "+node+" resources_available.cgswap'") })
	var all struct {
		Nodes map[string]struct {
			Available map[string]any `json:"resources_available"`
		} `json:"nodes"`
	}
	eventually(t, "the server knows cgswap of "+node, func() bool {
		must.NoError(t, json.Unmarshal([]byte(on(t, nodes[0], "pbsnodes -F json "+node)), &all))
		return all.Nodes[node].Available["cgswap"] != nil
	})
	kb := func(name string) (n int) {
		if _, err := fmt.Sscanf(fmt.Sprint(all.Nodes[node].Available[name]), "%dkb", &n); err != nil {
			t.Errorf("%s of %s: %v", name, node, all.Nodes[node].Available[name])
		}
		return n
	}
	if got, want := kb("cgswap"), kb("vmem")-kb("mem"); got != want {
		t.Errorf("cgswap of %s is %d kb, want %d", node, got, want)
	}
	j := qsub(t, "alice", "-l select=1:ncpus=1:mem=64mb:vmem=64mb:host="+node, "true")
	j.succeeds()
	j.gone()
}

func TestUninstallTakesCgswapAway(t *testing.T) {
	withCgswap(t)
	on(t, nodes[0], "hookhost openpbs install --cgswap --name other --dry-run >/dev/null || :")
	out := on(t, nodes[0], "hookhost openpbs install")
	if !strings.Contains(out, "hookhost_cgswap is registered already") {
		t.Errorf("install without --cgswap says %q", out)
	}
	out = on(t, nodes[0], "hookhost openpbs uninstall --dry-run")
	if !strings.Contains(out, "delete hook hookhost_cgswap") {
		t.Errorf("uninstall --dry-run says %q", out)
	}
}
