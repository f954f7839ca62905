package config

import (
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

func TestConditionIsJudgedForTheHost(t *testing.T) {
	for _, tt := range []struct {
		text string
		here Here
		want bool
	}{
		{"vntype in: gpu", Here{Vntype: "gpu"}, true},
		{"vntype in: gpu", Here{Vntype: "gpu2"}, false},
		{"vntype in: cpu , gpu*", Here{Vntype: "gpu2"}, true},
		{"vntype not in: cpu,gpu*", Here{Vntype: "gpu2"}, false},
		{"vntype not in: cpu,gpu*", Here{Vntype: "fat"}, true},
		{"vntype in: gpu", Here{}, false},
		{"vntype not in: gpu", Here{}, true},
		{"vntype in: __UNKNOWN__", Here{}, true},
		{"vntype in: *", Here{}, true},
		{"host in: n1", Here{Host: "n1"}, true},
		{"host in: n1", Here{Host: "n11"}, false},
		{"host in: n?", Here{Host: "n1"}, true},
		{"host in: n[13],m*", Here{Host: "n3"}, true},
		{"host in: n[!13]", Here{Host: "n3"}, false},
		{"host in: n[0-9][0-9]", Here{Host: "n37"}, true},
		{"host in: n[]]", Here{Host: "n]"}, true},
		{"host in: n[^1]", Here{Host: "n^"}, true},
		{"host in: n.1", Here{Host: "nx1"}, false},
		{"host in: a*c", Here{Host: "a/b/c"}, true},
		{"  HOST Not  In :  n1 ", Here{Host: "n1"}, false},
		{"VnType IN:GPU", Here{Vntype: "gpu"}, false},
		{"vntype in: GPU", Here{Vntype: "GPU"}, true},
		{"vntype in: größe[0-9]", Here{Vntype: "größe2"}, true},
		{"vntype in:\n gpu", Here{Vntype: "gpu"}, true},
		{"host in: a and vntype in: x", Here{Host: "a", Vntype: "x"}, true},
		{"host in: a and vntype in: x", Here{Host: "a", Vntype: "y"}, false},
		{"host in: a or vntype in: x", Here{Host: "b", Vntype: "x"}, true},
		{"host in: a or vntype in: x", Here{Host: "b", Vntype: "y"}, false},
		{"host in: b or host in: a and vntype in: x", Here{Host: "b", Vntype: "y"}, true},
		{"host in: a and vntype in: x or host in: b", Here{Host: "b", Vntype: "y"}, true},
		{"host in: a and vntype in: x or host in: b and vntype in: y", Here{Host: "a", Vntype: "y"}, false},
		{"host in: a, b\nAND  vntype\tNOT in :x\nOr host in: c", Here{Host: "b", Vntype: "y"}, true},
		{"host in: and or vntype in: or", Here{Host: "and"}, true},
		{"host in: and or vntype in: or", Here{Vntype: "or"}, true},
	} {
		got, err := tt.here.holds(tt.text)
		if err != nil || got != tt.want {
			t.Errorf("%q on %+v: %t, %v, want %t", tt.text, tt.here, got, err, tt.want)
		}
	}
	for _, text := range []string{"", "yes", "true", "vntype: gpu", "vntype in gpu", "vntype inn: gpu",
		"vntypes in: gpu", "user in: a", "host in:",
		"host in: a,,b", "host in: a,", "host not: a", "host in: [z-a]", "vntype in: [a", "host in: n[", "host in: n[]",
		"host in: a and", "and host in: a", "host in: a and or host in: b", "host in: a or vntype: b",
		"host in: and vntype in: b",
		"host in: b and host in: [a", "host in: b or host in: "} {
		if got, err := (Here{Host: "a"}).holds(text); err == nil {
			t.Errorf("%q: %t, want an error", text, got)
		}
	}
}

// Conditions are resolved wherever TOML lets a key stand, and errors are in the line where their
// author sees them.
func TestParseConditions(t *testing.T) {
	const text = `memory = { enabled = "host in: n*", oom_group = 'host not in: n1' }
cpu.enabled = "vntype not in: slow"
[cpuset]
enabled = """
vntype in: gpu,
 fat"""
mem_fences = "vntype in: gpu" # only there
placement = "vntype in: gpu"
`
	here := Here{Host: "n1", Vntype: "fat"}
	f, err := Parse([]byte(strings.Replace(text, `placement = "vntype in: gpu"`, `placement = "spread"`, 1)), here)
	must.NoError(t, err)
	got := map[string]bool{"memory": f.Memory.Enabled, "oom_group": f.Memory.OOMGroup, "cpu": f.CPU.Enabled,
		"cpuset": f.Cpuset.Enabled, "mem_fences": f.Cpuset.MemFences}
	want := map[string]bool{"memory": true, "oom_group": false, "cpu": true, "cpuset": true, "mem_fences": false}
	must.Equal(t, "", want, got)
	list := f.Conditions()
	wantList := []Condition{{"memory.enabled", 1, "host in: n*", true},
		{"memory.oom_group", 1, "host not in: n1", false},
		{"cpu.enabled", 2, "vntype not in: slow", true}, {"cpuset.enabled", 4, "vntype in: gpu,\n fat", true},
		{"cpuset.mem_fences", 7, "vntype in: gpu", false}}
	must.Equal(t, "", wantList, list)
	// A string elsewhere is a string.
	if _, err := Parse([]byte(text), here); err == nil ||
		!strings.Contains(err.Error(), `cpuset.placement = "vntype in: gpu"`) {
		t.Errorf("error %v", err)
	}
	for _, tt := range []struct{ text, want string }{
		{"[memory]\nenabled = \"host in: a\"\ndefautl = 1", `line 3: unknown key "memory.defautl"`},
		{"[memory]\nenabled = \"\"\"\nhost in:\na\"\"\"\ndefautl = 1", `line 5: unknown key "memory.defautl"`},
		{"\n[memory]\n\nenabled = \"host inn: a\"", `line 4: memory.enabled: "host inn: a"`},
		{"[memory]\noom_group = \"vntype in: [z-a]\"", `line 2: memory.oom_group: "vntype in: [z-a]": pattern "[z-a]": not a shell pattern`},
		{"[memory]\nenabled = \"host in: a", "line 2"},
		{"[memory]\nenabled = \"host in: a\" x", "line 2"},
		{"[pids]\nmax = \"host in: a\"", "line 2: pids.max"},
	} {
		if _, err := Parse([]byte(tt.text), here); err == nil || !strings.Contains(err.Error(), tt.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: error %v, want one line with %q", tt.text, err, tt.want)
		}
	}
}

// The name in host.node is this host's, wherever in the file it stands.
func TestConditionTakesTheConfiguredName(t *testing.T) {
	f, err := Parse([]byte("[memory]\nenabled = \"host in: other\"\n[host]\nnode = \"other\"\n"), Here{Host: "n1"})
	if err != nil || !f.Memory.Enabled {
		t.Errorf("%+v, %v", f, err)
	}
}

// The [openpbs] table is read before the conditions, as the vntype comes from there.
func TestOpenPBSOfATextWithConditions(t *testing.T) {
	const conditions = "[host]\nenabled = \"vntype in: a\"\n"
	for text, want := range map[string]OpenPBS{
		"":                                   Default().OpenPBS,
		conditions:                           Default().OpenPBS,
		"[openpbs]\nhome = '/h'\n":           {Home: "/h", Conf: "/etc/pbs.conf"},
		"openpbs = { conf = '', HOME='/x'}":  {Home: "/x"},
		conditions + "openpbs.conf = '/c'":   {Conf: "/etc/pbs.conf"}, // host.openpbs.conf
		"openpbs.conf = '/c'\n" + conditions: {Conf: "/c"},
		"openpbs.conf = '/c'\nopenpbs = ":    {Conf: "/c"},
	} {
		if got := OpenPBSOf([]byte(text)); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

func TestConditionAsksForTheVntype(t *testing.T) {
	for text, want := range map[string]bool{
		"vntype in: a": true, "host in: a and VNTYPE not in: b": true, " vntype  not  in :x": true,
		"host in: vntype": false, "host not in: a": false,
	} {
		if got := (Condition{Text: text}).OnVntype(); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

func FuzzConditions(f *testing.F) {
	f.Add([]byte("[memory]\nenabled = \"host in: a[!b-c]*\"\n"), "n1", "gpu")
	f.Add([]byte("memory = { enabled = '''\r\nvntype not in:\nx''' }\n[[memory]]\n"), "", "")
	f.Fuzz(func(t *testing.T, b []byte, host, vntype string) {
		resolved, list, err := resolve(b, Here{Host: host, Vntype: vntype})
		if err != nil {
			if list != nil || resolved != nil {
				t.Errorf("%q: %q, %v beside error %v", b, resolved, list, err)
			}
			return
		}
		if len(resolved) != len(b) || strings.Count(string(resolved), "\n") != strings.Count(string(b), "\n") {
			t.Errorf("%q became %q", b, resolved)
		}
		if again := booleans(resolved); len(again) > 0 {
			t.Errorf("%q became %q, which has conditions still: %v", b, resolved, again)
		}
	})
}
