package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookhost/hookhost/internal/must"
)

const sisterFiles = "ca = \"/e/ca.crt\"\ncert = \"/e/n1.crt\"\nkey = \"/e/n1.key\"\n"

func TestSisterSettingsAreChecked(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"all", "listen = \":15020\"\nheads = [\"n1\", \"login*\"]\nallow_root = true\nwidth = 8\nretry = " +
			"\"5s\"\nhead_timeout = \"0s\"\n" + sisterFiles +
			"[sister.hosts]\nn2 = \"10.0.0.2:15020\"\n\"n3.x\" = \"[::1]:1\"", ""},
		{"files without listening", sisterFiles, ""},
		{"listening without files", `listen = ":15020"`, "needs ca, cert and key"},
		{"two files", "ca = \"/e/ca\"\ncert = \"/e/c\"", "all three or none"},
		{"relative", "ca = \"ca\"\ncert = \"/e/c\"\nkey = \"/e/k\"", "sister.ca"},
		{"no port", "listen = \"n1\"\n" + sisterFiles, "HOST:PORT"},
		{"port 0", "listen = \":0\"\n" + sisterFiles, "port"},
		{"bad pattern", `heads = ["n["]`, "sister.heads"},
		{"empty pattern", `heads = [""]`, "sister.heads"},
		{"width", `width = 0`, "sister.width"},
		{"head_timeout of a second", `head_timeout = "1s"`, "sister.head_timeout"},
		{"number for a time", `retry = 5`, "sister.retry"},
		{"no time", `connect_timeout = "0s"`, "sister.connect_timeout"},
		{"bad host", "[sister.hosts]\n\"a b\" = \"x:1\"", "not a host name"},
		{"address without a host", "[sister.hosts]\nn2 = \":1\"", "sister.hosts.n2"},
		{"unknown key", `listem = ""`, "unknown key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := Parse([]byte("[sister]\n"+tt.text), Here{})
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Fatalf("%v, want %q", err, tt.want)
				}
				return
			}
			must.NoError(t, err)
			shown, err := f.TOML()
			must.NoError(t, err)
			again, err := Parse(shown, Here{})
			if err != nil {
				t.Fatalf("%v in\n%s", err, shown)
			}
			must.Equal(t, "read back", f, again, cmpopts.IgnoreUnexported(File{}))
		})
	}
}

func TestOnlyListedHostsMayHead(t *testing.T) {
	s := Sister{Heads: []string{"n1", "login[0-9]"}}
	for host, want := range map[string]bool{
		"n1": true, "login7": true, "n2": false, "n1.cluster": false, "login77": false, "": false,
	} {
		if s.MayHead(host) != want {
			t.Errorf("%s: not %t", host, want)
		}
	}
	if (Sister{}).MayHead("n1") {
		t.Error("an empty list lets n1 in")
	}
}
