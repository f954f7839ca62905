package pbs

import "testing"

func TestCheckResources(t *testing.T) {
	for _, tt := range []struct {
		name      string
		resources res
		err       string
	}{
		{name: "nil"},
		{name: "captured", resources: res{"mem": "130mb", "ncpus": "2", "place": "free", "walltime": "00:05:00"}},
		{name: "used", resources: res{"mem": "0b", "cput": "00:01:39", "cpupercent": "55", "diag_messages": "{}"}},
		{name: "site's own", resources: res{"scratch": "much", "Licence_1": ""}},
		{name: "bad size", resources: res{"mem": "banana", "ncpus": "2"}, err: "resource mem=banana: not a size"},
		{name: "bad count", resources: res{"ncpus": "-2"}, err: "resource ncpus=-2: not a whole number"},
		{name: "bad duration", resources: res{"walltime": "soon"},
			err: "resource walltime=soon: not a duration ([[HH:]MM:]SS[.ms])"},
		{name: "first of several", resources: res{"walltime": "soon", "mem": "x", "vmem": "y"},
			err: "resource mem=x: not a size"},
		{name: "empty value", resources: res{"mem": ""}, err: "resource mem=: not a size"},
		{name: "bad name", resources: res{"a\nb": "1"}, err: `resource "a\nb"=1: not a resource name`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := CheckResources(tt.resources); message(err) != tt.err {
				t.Errorf("error %q, want %q", message(err), tt.err)
			}
		})
	}
}
