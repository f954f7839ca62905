package hostapi_test

import (
	"context"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/hostapi/hooktest"
	"github.com/hookhost/hookhost/internal/must"
)

type (
	ctx     = context.Context
	request = hostapi.Request
	outcome = hostapi.Outcome
)

type nothing struct{}

type wrongArguments struct{}

func (wrongArguments) ExecjobEnd(ctx, *request) (*outcome, error)         { return nil, nil }
func (wrongArguments) ExecjobBegin(*request, ...string) (*outcome, error) { return nil, nil }

type wrongName struct{}

func (*wrongName) ExecJobBegin(ctx, *request) (*outcome, error) { return nil, nil }

type byPointer struct{}

func (*byPointer) ExecjobLaunch(ctx, *request) (*outcome, error) { return nil, nil }

func TestRefusedHooks(t *testing.T) {
	const want = "(context.Context, *hostapi.Request) (*hostapi.Outcome, error)"
	tests := []struct {
		name string
		hook any
		want string
	}{
		{"nil", nil, "hook: the constructor returned nil"},
		{"nothing", nothing{}, "hook hostapi_test.nothing: handles no event: it has no method such as ExecjobBegin" +
			want},
		{"a number", 7, "hook int: handles no event: it has no method such as ExecjobBegin" + want},
		{"arguments", wrongArguments{},
			"hook hostapi_test.wrongArguments: method ExecjobBegin(*hostapi.Request, ...string) " +
				"(*hostapi.Outcome, error) is not ExecjobBegin" + want},
		{"name", new(wrongName), "hook *hostapi_test.wrongName: method ExecJobBegin" + want + " is not ExecjobBegin" +
			want},
		{"pointer", byPointer{},
			"hook hostapi_test.byPointer: ExecjobLaunch is a method of the pointer: return a *hostapi_test.byPointer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := hooktest.Try(t, func(*hostapi.Setup) (any, error) { return tt.hook, nil }, hostapi.SetupData{})
			if err == nil || err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

// all handles every event and answers with the event that the method stands for.
type all struct{}

func note(e hostapi.Event) (*outcome, error) { return &outcome{Notes: []string{string(e)}}, nil }

func (all) ExecjobBegin(ctx, *request) (*outcome, error)       { return note("execjob_begin") }
func (all) ExecjobPrologue(ctx, *request) (*outcome, error)    { return note("execjob_prologue") }
func (all) ExecjobLaunch(ctx, *request) (*outcome, error)      { return note("execjob_launch") }
func (all) ExecjobAttach(ctx, *request) (*outcome, error)      { return note("execjob_attach") }
func (all) ExecjobResize(ctx, *request) (*outcome, error)      { return note("execjob_resize") }
func (all) ExecjobPostsuspend(ctx, *request) (*outcome, error) { return note("execjob_postsuspend") }
func (all) ExecjobPreresume(ctx, *request) (*outcome, error)   { return note("execjob_preresume") }
func (all) ExecjobPreterm(ctx, *request) (*outcome, error)     { return note("execjob_preterm") }
func (all) ExecjobAbort(ctx, *request) (*outcome, error)       { return note("execjob_abort") }
func (all) ExecjobEpilogue(ctx, *request) (*outcome, error)    { return note("execjob_epilogue") }
func (all) ExecjobEnd(ctx, *request) (*outcome, error)         { return note("execjob_end") }
func (all) ExechostStartup(ctx, *request) (*outcome, error)    { return note("exechost_startup") }
func (all) ExechostPeriodic(ctx, *request) (*outcome, error)   { return note("exechost_periodic") }

func TestEveryEventReachesItsMethod(t *testing.T) {
	h := hooktest.New(t, func(*hostapi.Setup) (any, error) { return all{}, nil }, "")
	must.Equal(t, "events", hostapi.Events(), h.Events())
	for _, e := range hostapi.Events() {
		req := &request{Event: e}
		if e.ForJob() {
			req.Job = &hostapi.Job{ID: "1"}
		}
		out, err := h.Call(t.Context(), req)
		must.NoError(t, err)
		must.Equal(t, string(e), []string{string(e)}, out.Notes)
	}
}

func BenchmarkCall(b *testing.B) {
	h := hooktest.New(b, func(*hostapi.Setup) (any, error) { return all{}, nil }, "")
	req := beginOf("x")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Call(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCallProcess(b *testing.B) {
	p, err := configure(b, newProcess(b, probeCommand(b)), hostapi.SetupData{})
	must.NoError(b, err)
	req := beginOf("accept")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Call(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}
