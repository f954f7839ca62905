package tm

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
)

// FuzzPayload reads a payload of another host's remsh, and one that this host's has made.
func FuzzPayload(f *testing.F) {
	f.Add([]byte(`{"v":1,"job":"1.a","cmd":"ZWNobw==","env":{"PBS_JOBID":"MS5h"}}`), "echo \xff", "PBS_QUEUE=a=b")
	f.Add([]byte(`{"v":2}`), "", "=")
	f.Add([]byte(`{"v":1,"cmd":null,"env":null}`), "'", "HOME=/")
	f.Fuzz(func(t *testing.T, b []byte, command, variable string) {
		if p, err := decodePayload(b); (p == nil) == (err == nil) || p != nil && p.Version != payloadVersion {
			t.Errorf("%q: %+v, %v", b, p, err)
		}
		sent := newPayload("1.a", command, []string{variable})
		for name := range sent.Env {
			if !slices.Contains(carried, name) {
				t.Errorf("%s goes along", name)
			}
		}
		text, err := json.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		word := asWord(text)
		if word == "" {
			return
		}
		text, err = fromWord(word)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodePayload(text)
		same := func(a, b []byte) bool { return string(a) == string(b) }
		if err != nil || !same(got.Command, sent.Command) || got.Job != "1.a" ||
			!maps.EqualFunc(got.Env, sent.Env, same) {
			t.Errorf("sent %+v, got %+v, %v", sent, got, err)
		}
	})
}
