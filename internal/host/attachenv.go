package host

import (
	"context"
	"maps"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// attachLink stands for a hook that set variables for all attached processes, at begin or resize.
// These variables are part of its answer to each attach. A hook that does not handle execjob_attach
// is not called.
type attachLink struct {
	link
	env map[string]string
}

func (l attachLink) Gets(hostapi.Event) bool { return l.Hook().Enabled }

func (l attachLink) Call(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	out := &hostapi.Outcome{}
	if l.link.Gets(req.Event) {
		answer, err := l.link.Call(ctx, req)
		if err != nil {
			return answer, err
		}
		if answer != nil {
			out = answer
		}
	}
	env := maps.Clone(l.env)
	maps.Copy(env, out.SetEnv)
	out.SetEnv = env
	return out, nil
}

// attachLinks returns the links of an attach to the record's job.
func attachLinks(links []link, rec *jobstate.Record) []link {
	for i, l := range links {
		if env := rec.AttachEnv[l.Hook().Name]; len(env) > 0 {
			links[i] = attachLink{l, env}
		}
	}
	return links
}
