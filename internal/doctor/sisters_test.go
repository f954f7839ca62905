package doctor

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/settings"
)

func TestWayToOtherHostsIsExamined(t *testing.T) {
	now := time.Now()
	files := config.Sister{CA: "ca.crt", Cert: "n1.crt", Key: "n1.key", Heads: []string{"n2"}, Listen: ":15020"}
	deaf := files
	deaf.Listen = ""
	for _, tt := range []struct {
		name    string
		sister  config.Sister
		expires time.Time
		err     error
		refused map[string]int64
		want    []string
	}{
		{name: "nothing is configured"},
		{name: "heads alone", sister: config.Sister{Heads: []string{"n2"}},
			want: []string{"degraded other hosts: heads in [sister] has no effect"}},
		{name: "not listening", sister: deaf, expires: now.AddDate(1, 0, 0), want: []string{
			"ok certificate: for n1, until", "degraded other hosts: heads in [sister] has no effect: listen is empty"}},
		{name: "in order", sister: files, expires: now.AddDate(1, 0, 0),
			refused: map[string]int64{"denied": 3, "certificate": 1}, want: []string{
				"ok certificate", "ok other hosts: listens on :15020; may begin jobs here: n2",
				"ok refused: since the daemon started: certificate 1, denied 3"}},
		{name: "expires soon", sister: files, expires: now.AddDate(0, 0, 3),
			want: []string{"degraded certificate: n1.crt expires at", "ok other hosts"}},
		{name: "has expired", sister: files, expires: now.AddDate(0, 0, -1),
			want: []string{"impossible certificate: n1.crt has expired at", "ok other hosts"}},
		{name: "cannot be read", sister: files, err: errors.New("no such file"),
			want: []string{"blocking impossible certificate: no such file", "ok other hosts"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := &Node{Settings: settings.Settings{File: config.Default()}, State: t.TempDir(),
				Certificate: func() (string, time.Time, error) { return "n1", tt.expires, tt.err }}
			n.Settings.File.Sister = tt.sister
			findings := n.examineSisters(daemon{info: api.NodeInfo{Refused: tt.refused}}, now)
			if len(findings) != len(tt.want) {
				t.Fatalf("%+v, want %q", findings, tt.want)
			}
			for i, f := range findings {
				line := string(f.Status) + " " + f.What + ": " + f.Found
				if f.Blocks {
					line = "blocking " + line
				}
				if !strings.HasPrefix(line, tt.want[i]) {
					t.Errorf("%q, want %q", line, tt.want[i])
				}
			}
		})
	}
}
