package openpbs_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/integrations/openpbs/table"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/must"
)

// inPython runs a piece of the shim's text, from the line that begins with first to the one before
// last, and then more.
func inPython(t *testing.T, first, last, more string, stdin any, into any) {
	t.Helper()
	_, text, ok := strings.Cut("\n"+string(openpbs.Shim()), "\n"+first)
	text, _, ok2 := strings.Cut(text, "\n"+last)
	if !ok || !ok2 {
		t.Fatalf("the shim has no lines %q and %q", first, last)
	}
	in, err := json.Marshal(stdin)
	must.NoError(t, err)
	cmd := exec.Command(python(t), "-c", "import json, sys\n"+first+text+"\n"+more)
	cmd.Stdin = strings.NewReader(string(in))
	out, err := cmd.Output()
	must.NoError(t, err)
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
}

func TestTableIsReadAsTheShimReadsIt(t *testing.T) {
	lines := []string{"[shim]", " [shim]\t", "[shim] # x", "[ shim ]", "[[shim]]", "[shim", "[memory]", "# c", "", " ",
		"\r", "=", "= 3", "wait",
		`wait = "9s"`, `wait="9s"# c`, `wait = "9s" x`, `wait = '9s'`, `wait = '9s"`, `wait = ""`, `wait = "`,
		`wait = "\u0039s"`, `wait = """9s"""`,
		"offline = true", "offline = false # c", "offline = True", `offline = "true"`,
		"offline = 'false'", "offline = true#c", "offline = #",
		`socket = "/a=b#c"`, "a = 'b\u00a0'", "\u00a0a = true", "\va = true", `"wait" = true`, "\f[shim]"}
	var texts []string
	for i, a := range lines {
		for _, b := range lines {
			texts = append(texts, "[shim]\n"+a+"\n"+b+"\n", a+"\n"+b, "x = [\n"+lines[len(lines)-1-i]+"\n"+a+"\n"+b)
		}
	}
	var got []map[string]string
	inPython(t, "def shim_lines(", "def word(", `
def read(text):
    return {k: v for k, v in map(setting, shim_lines(text)) if v is not None}
json.dump([read(text) for text in json.load(sys.stdin)], sys.stdout)`, texts, &got)
	for i, text := range texts {
		must.Equal(t, fmt.Sprintf("%q: -Python +Go", text), got[i], table.Read([]byte(text)))
	}
}

func TestShimsDefaultsAreThoseOfTheConfiguration(t *testing.T) {
	var got map[string]string
	inPython(t, "DEFAULTS = ", "GUARDED = ", "json.dump(DEFAULTS, sys.stdout)", nil, &got)
	text, err := config.Default().TOML()
	must.NoError(t, err)
	must.Equal(t, "-shim +configuration", got, table.Read(text))
	if n := reflect.TypeFor[config.Shim]().NumField(); n != len(got) {
		t.Errorf("[shim] has %d keys, the shim %d", n, len(got))
	}
}

// Without a daemon the shim decides about each event as hostapi's table of events says.
func TestShimsEventsAreThoseOfTheTable(t *testing.T) {
	var got map[string][]string
	inPython(t, "GUARDED = ", "FIELDS = ", `json.dump({"all": EVENTS, "refusable": GUARDED, "starts": RERUN}, sys.stdout)`,
		nil, &got)
	for _, names := range got {
		slices.Sort(names)
	}
	want := map[string][]string{}
	for _, e := range slices.Sorted(slices.Values(hostapi.Events())) {
		want["all"] = append(want["all"], string(e))
		if e.Refusable() {
			want["refusable"] = append(want["refusable"], string(e))
		}
		if e.Starts() {
			want["starts"] = append(want["starts"], string(e))
		}
	}
	must.Equal(t, "-shim +table", got, want)
}
