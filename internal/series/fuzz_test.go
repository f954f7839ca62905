package series

import (
	"encoding/json"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

// FuzzJob reads the series of a job from a file, and what a host has measured since. Both together
// are a series again, and to append twice is to append once.
func FuzzJob(f *testing.F) {
	f.Add([]byte(`{"n1":{"host":{"times":[1,2],"columns":{"cpu":[1,null]}},"devices":{"a":{"times":[3],"columns":{}}}}}`),
		[]byte(`{"n1":{"series":{"times":[2,5],"columns":{"rss_bytes":[7,8]}},"devices":[{"id":"a"}]},"n2":null}`))
	f.Add([]byte(`{"n1":{"host":{"times":[2,1]}}}`), []byte(`{"n1":{"series":{"times":[9223372036854775807]}}}`))
	f.Add([]byte(`{"n1":{}}`), []byte(`{"n1":{"devices":[{"id":"","series":{"times":[0,1]}},{"series":{"times":[1]}}]}}`))
	f.Fuzz(func(t *testing.T, file, told []byte) {
		var job Job
		if json.Unmarshal(file, &job) != nil || job.Check() != nil {
			return
		}
		hosts := map[string]*hostapi.HostUsage{}
		if json.Unmarshal(told, &hosts) != nil {
			return
		}
		for _, u := range hosts {
			if u.CheckSeries() != nil {
				return
			}
		}
		once := job.Append(hosts, MostPoints)
		must.NoError(t, once.Check())
		for name, u := range once.Join(hosts) {
			if err := u.CheckSeries(); err != nil {
				t.Errorf("host %s: %v", name, err)
			}
			if u != nil && u.Series != nil && hosts[name].Series != nil && len(u.Series.Times) > MostPoints {
				t.Errorf("host %s: %d points", name, len(u.Series.Times))
			}
		}
		must.Equal(t, "appended twice", text(t, once), text(t, once.Append(hosts, MostPoints)))
	})
}

func text(t *testing.T, j Job) string {
	t.Helper()
	b, err := json.Marshal(j)
	must.NoError(t, err)
	return string(b)
}
