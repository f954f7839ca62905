package doctor

import (
	"os"
	"testing"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/must"
)

func TestTargetsOfReportsAreExamined(t *testing.T) {
	good, open := t.TempDir(), t.TempDir()
	must.NoError(t, os.Chmod(good, 0o755), os.Chmod(open, 0o777))
	program := good + "/mail"
	must.NoError(t, os.WriteFile(program, nil, 0o755))
	for name, tt := range map[string]struct {
		reports config.Reports
		want    []Status
	}{
		"none": {config.Reports{}, nil},
		"good": {config.Reports{Directory: good, Command: program}, []Status{OK, OK}},
		"bad":  {config.Reports{Directory: open, Command: program + "2"}, []Status{Degraded, Degraded}},
		"one":  {config.Reports{Command: good}, []Status{Degraded}},
	} {
		var got []Status
		for _, f := range examineDelivery(tt.reports) {
			got = append(got, f.Status)
		}
		must.Equal(t, name, tt.want, got)
	}
}
