package main

import (
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/hostapi/hooktest"
)

func TestJobOfTooManyCPUsIsRejected(t *testing.T) {
	tests := []struct {
		name, config, ncpus string
		reject              bool
		kind                hostapi.Kind
	}{
		{name: "fits", ncpus: "4"},
		{name: "too many", ncpus: "5", reject: true},
		{name: "configured", config: "most = 8", ncpus: "5"},
		{name: "says nothing", ncpus: ""},
		{name: "no number", ncpus: "banana", kind: hostapi.KindJob},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := hooktest.New(t, newHook, tt.config)
			out, err := h.Call(t.Context(), &hostapi.Request{
				Event: hostapi.EventBegin,
				Job:   &hostapi.Job{ID: "1.server", ResourceList: hostapi.Resources{"ncpus": tt.ncpus}},
			})
			if got := hostapi.KindOf(err); got != tt.kind {
				t.Fatalf("error %v, want kind %q", err, tt.kind)
			}
			if err == nil && out.Reject != tt.reject {
				t.Errorf("reject = %v (%s), want %v", out.Reject, out.Message, tt.reject)
			}
		})
	}
}
