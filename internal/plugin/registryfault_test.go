package plugin

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The attributes that can still be read of a hook whose file cannot be used count. The rest is as
// strict as can be.
func TestFaultyFileKeepsWhatCanBeRead(t *testing.T) {
	r := newRegistry(t)
	site := func(edit func(*Attributes)) Attributes {
		a := DefaultAttributes()
		if edit != nil {
			edit(&a)
		}
		return a
	}
	for _, tt := range []struct {
		name, text, fault string
		want              Attributes
	}{
		{"no TOML", "order 7\n", "line 1: ", site(nil)},
		{"cut off", "enabled = false\nevent = \"execjob_be", "line 2: ", site(nil)}, // who knows what else it said
		{"unknown key", "enabled = false\ncolour = 2\n", `line 2: unknown key "colour"`,
			site(func(a *Attributes) { a.Enabled = false })},
		{"a field that is no key", "BuiltIn = true\n", `line 1: unknown key "BuiltIn"`, site(nil)},
		{"an order that is none", "order = 5000\nevent = \"execjob_begin,execjob_end\"\nfail_action = " +
			"\"offline_vnodes\"\n", "order = 5000",
			site(func(a *Attributes) {
				a.Event, a.FailAction = EventList{"execjob_begin", "execjob_end"}, FailActionList{"offline_vnodes"}
			})},
		{"an event that is none", "order = 7\nevent = \"execjob_begn\"\n", "line 2: event",
			site(func(a *Attributes) { a.Order = 7 })},
		{"what an error counts against", "order = 0\non_node_error = \"job\"\n", "order = 0",
			site(func(a *Attributes) { a.OnNodeError = BlameJob })},
		{"an error that counts against all", "on_node_error = \"all\"\n", "on_node_error", site(nil)},
		{"another user", "user = \"pbsuser\"\n", "user = pbsuser", site(nil)}, // it is not to be started at all
		{"no checksum", "program = \"/usr/bin/true\"\n", `sha256 = ""`, site(nil)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(r.Dir, "h.toml")
			if err := os.MkdirAll(r.Dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(tt.text), 0o644); err != nil {
				t.Fatal(err)
			}
			hooks, err := r.List()
			i := slices.IndexFunc(hooks, func(h Hook) bool { return h.Name == "h" })
			if err != nil || i < 0 {
				t.Fatalf("%+v, %v", hooks, err)
			}
			h := hooks[i]
			if !strings.Contains(h.Fault, tt.fault) || strings.Contains(h.Fault, "\n") || h.Program != "" {
				t.Errorf("fault %q, want %q; program %q", h.Fault, tt.fault, h.Program)
			}
			if diff := cmp.Diff(tt.want, h.Attributes); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
	// A file that somebody else can write to is not even looked into.
	if err := os.WriteFile(filepath.Join(r.Dir, "h.toml"), []byte("enabled = false\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(r.Dir, "h.toml"), 0o666); err != nil {
		t.Fatal(err)
	}
	// A link that leads nowhere is no hook that was deleted, nor one that comes with hookhost as it
	// comes.
	for _, name := range []string{"away", "cgroup"} {
		if err := os.Symlink(filepath.Join(r.Dir, "not mounted", name),
			filepath.Join(r.Dir, name+".toml")); err != nil {
			t.Fatal(err)
		}
	}
	// Nor is one a hook that has no hook's name, and it is not passed over.
	if err := os.WriteFile(filepath.Join(r.Dir, "9 lives.toml"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	hooks, err := r.List()
	if err != nil || len(hooks) != 4 {
		t.Fatalf("%+v, %v", hooks, err)
	}
	for _, h := range hooks {
		const gone = "a link to what is not there"
		want := map[string]string{"h": "mode 0666 lets others write to it", "9 lives": "a name has a letter",
			"away": gone, "cgroup": gone}[h.Name]
		if (want == "") != (h.Fault == "") || !strings.Contains(h.Fault, want) || !h.Enabled {
			t.Errorf("hook %q: enabled %t, fault %q, want %q", h.Name, h.Enabled, h.Fault, want)
		}
	}
	if err := r.Delete("away"); err != nil {
		t.Error(err)
	}
	// A folder that is not there is an error: nobody knows what hooks there are.
	away := filepath.Join(t.TempDir(), "hooks.d")
	if err := os.Symlink(filepath.Join(r.Dir, "not mounted"), away); err != nil {
		t.Fatal(err)
	}
	if hooks, err := (&Registry{Dir: away, AllowUnsafePaths: true}).List(); err == nil {
		t.Errorf("a folder that is not there: %+v", hooks)
	}
}
