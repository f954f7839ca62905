package openpbs

import (
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// cgswapDirectives are those of an installation, without what is imported.
func cgswapDirectives(t *testing.T, r Registration, existing *Hook, resource *Resource) string {
	t.Helper()
	list, err := r.InstallCgswap(existing, resource)
	must.NoError(t, err)
	var all []string
	for _, c := range list {
		all = append(all, c.Directive)
	}
	return strings.Join(all, "\n")
}

func TestCgswapIsRegisteredOnceAndKeptAsItIs(t *testing.T) {
	r := Default()
	const create, content, begin, end = "create hook hookhost_cgswap\n",
		"import hook hookhost_cgswap application/x-python base64 -",
		"set hook hookhost_cgswap enabled = false\n",
		"\nset hook hookhost_cgswap event = \"queuejob,modifyjob\"\nset hook hookhost_cgswap enabled = true"
	there := &Resource{Type: "size", Flag: "hn"}
	whole := func(script string) *Hook {
		return &Hook{Name: "hookhost_cgswap", Script: []byte(script),
			Attributes: map[string]string{"event": "queuejob,modifyjob", "enabled": "false"}}
	}
	for _, tt := range []struct {
		name     string
		existing *Hook
		resource *Resource
		want     string
	}{
		{"nothing is there", nil, nil, "create resource cgswap type=size,flag=nh\n" + create + begin + content + end},
		{"the resource is there", nil, there, create + begin + content + end},
		{"broken off before the script", &Hook{Attributes: map[string]string{"enabled": "false"}}, there,
			begin + content + end},
		{"broken off before the events", &Hook{Script: cgswapText(),
			Attributes: map[string]string{"enabled": "false"}}, there, begin + strings.TrimPrefix(end, "\n")},
		{"another version, disabled by somebody", whole(cgswapMark + "\nold"), there, content},
		{"all is there, disabled by somebody", whole(string(cgswapText())), there, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := cgswapDirectives(t, r, tt.existing, tt.resource); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestCgswapOfSomebodyElseIsLeftAlone(t *testing.T) {
	r := Default()
	if _, err := r.InstallCgswap(&Hook{Script: []byte("import pbs")}, nil); err == nil ||
		!strings.Contains(err.Error(), "not hookhost's") {
		t.Errorf("a foreign hook: %v", err)
	}
	if list := r.UninstallCgswap(&Hook{Script: []byte("import pbs")}); list != nil {
		t.Errorf("a foreign hook is taken away: %v", list)
	}
	for _, wrong := range []Resource{{"long", "nh"}, {"size", "n"}, {"size", ""}, {"size", "h"}} {
		if _, err := r.InstallCgswap(nil, &wrong); err == nil ||
			!strings.Contains(err.Error(), "want type size and flag nh") {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

// The server's hook is not taken for the one that nodes run, of which there is one alone.
func TestCgswapBesideTheHookIsNoSecondHook(t *testing.T) {
	beside := &Hook{Name: "hookhost_cgswap", Script: cgswapText(), Attributes: map[string]string{"enabled": "true"}}
	if _, err := Default().Install(nil, nil, beside); err != nil {
		t.Error(err)
	}
}
