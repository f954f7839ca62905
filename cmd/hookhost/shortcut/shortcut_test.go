package shortcut

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	const other = "/x/s"
	for _, tt := range []struct {
		args   string
		socket string
		want   call // zero: not plain
	}{
		{"hookhost attach true", "", call{Socket, "", 0, []string{"true"}}},
		{"/usr/sbin/hookhost attach -j 1.x -m 15003 -- true -j 2.x --", other, call{other, "1.x", 0, []string{"true", "-j", "2.x", "--"}}},
		{"hookhost attach --socket /y/s -j 1[3].x -p 4711", other, call{"/y/s", "1[3].x", 4711, nil}},
		{"/opt/pbs/bin/pbs_attach -j 1.x a b", "", call{Socket, "1.x", 0, []string{"a", "b"}}},
		{"pbs_attach attach", "", call{Socket, "", 0, []string{"attach"}}},
		{"hookhost attach -j 1.x -j 2.x -p 98 -p 99 --", "", call{Socket, "2.x", 99, nil}},
		{"hookhost", "", call{}},
		{"hookhost attach", "", call{}},
		{"hookhost attach --", "", call{}},
		{"hookhost attach -", "", call{}},
		{"hookhost attach -j", "", call{}},
		{"hookhost attach -j 1.x", "", call{}},
		{"hookhost attach -j1.x true", "", call{}},
		{"hookhost attach --job 1.x true", "", call{}},
		{`hookhost attach -j 1"x true`, "", call{}},
		{"hookhost attach -s true", "", call{}},
		{"hookhost attach -P true", "", call{}},
		{"hookhost attach -h n1 true", "", call{}},
		{"hookhost attach -c true", "", call{}},
		{"hookhost attach --help", "", call{}},
		{"hookhost attach -p 1", "", call{}},
		{"hookhost attach -p 07", "", call{}},
		{"hookhost attach -p +7", "", call{}},
		{"hookhost attach -p 99 true", "", call{}},
		{"hookhost attach -m 0 true", "", call{}},
		{"hookhost attach -m 65536 true", "", call{}},
		{"hookhost attach true", "run/s", call{}},
		{"hookhost --socket /x attach true", "", call{}},
		{"hookhost event attach", "", call{}},
		{"pbs_attach", "", call{}},
		{"pbs_remsh attach true", "", call{}},
		{"hookhost-remsh attach true", "", call{}},
	} {
		got, ok := parse(strings.Fields(tt.args), tt.socket)
		if want := !reflect.DeepEqual(tt.want, call{}); ok != want || ok && fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: %+v, %v, want %+v", tt.args, got, ok, tt.want)
		}
	}
	if _, ok := parse([]string{"hookhost", "attach", "", "x"}, ""); ok {
		t.Error("a command without a name is plain")
	}
	if got, ok := parse(nil, ""); ok {
		t.Errorf("no arguments: %+v", got)
	}
}

func TestWith(t *testing.T) {
	o := outcome{set: []variable{{"A", "1"}, {"B", ""}, {"A", "2"}, {"", "x"}, {"C=", "x"}, {"D", "x\x00"}, {"E", "1"}}, unset: []string{"E", "F", "HOME"}}
	got := o.with([]string{"HOME=/", "AB=1", "A=0", "F=", "MPICH_PROCESS_GROUP=yes"})
	if want := []string{"AB=1", "A=2", "MPICH_PROCESS_GROUP=no", "B="}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func answered(body string) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func TestOutcomeOf(t *testing.T) {
	const body = `{"job":"1.x","outcome":{"set_env":{"A":"a\"\\\n\u003c\u00e9é","B":""},"unset_env":["C","D"],"usage":{"x":[1,-2.5e+3,null,true]}}}` + "\n"
	want := outcome{[]variable{{"A", "a\"\\\n<éé"}, {"B", ""}}, []string{"C", "D"}}
	if got, ok := outcomeOf(answered(body)); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, ok)
	}
	for _, plain := range []string{`{"job":"1.x","outcome":{}}`, `{"outcome":{"reject":false}}`, `{}`} {
		if got, ok := outcomeOf(answered(plain)); !ok || !reflect.DeepEqual(got, outcome{}) {
			t.Errorf("%s: %+v, %v", plain, got, ok)
		}
	}
	for _, other := range []string{
		``, `[]`, `{`, `{"outcome":{"reject":true}}`, `{"outcome":{"Reject":true}}`, `{"outcome":null}`, `{"outcome":{"set_env":{"A":1}}}`,
		`{"outcome":{"set_env":{"A":"\ud83d\ude00"}}}`, `{"outcome":{}}x`, `{"outcome":{},}`, `{"x":01}`, `{"x":- 1}`, `{"x":"` + "\n" + `"}`, `{"x":"` + "\xff" + `"}`,
		`{"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
	} {
		if _, ok := outcomeOf(answered(other)); ok {
			t.Errorf("%s: plain", other)
		}
	}
	whole := answered(body)
	for i := range whole {
		if _, ok := outcomeOf(whole[:i]); ok {
			t.Errorf("plain: the first %d bytes", i)
		}
	}
	for _, head := range []string{"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}", "HTTP/1.1 200 OK\r\n\r\n{}", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{}"} {
		if _, ok := outcomeOf([]byte(head)); ok {
			t.Errorf("%q: plain", head)
		}
	}
}

// What is read here encoding/json reads in the same way.
func FuzzOutcomeOf(f *testing.F) {
	f.Add(`{"job":"1.x","outcome":{"set_env":{"A":"a\"\\\n\u003c"},"unset_env":["C"],"reject":false,"usage":{"x":[1,-2.5e+3,null,true]}}}`)
	f.Add(`{"outcome":{"REJECT":true}}`)
	f.Add(`{"x":-0.1E-5,"y":{"z":[]}}`)
	f.Fuzz(func(t *testing.T, body string) {
		got, ok := outcomeOf(answered(body))
		if !ok {
			return
		}
		var want struct {
			Outcome struct {
				Reject   bool              `json:"reject"`
				SetEnv   map[string]string `json:"set_env"`
				UnsetEnv []string          `json:"unset_env"`
			} `json:"outcome"`
		}
		if err := json.Unmarshal([]byte(body), &want); err != nil || want.Outcome.Reject {
			t.Fatalf("%q: %v, %+v", body, err, want)
		}
		set := map[string]string{}
		for _, v := range got.set {
			set[v.name] = v.value
		}
		if len(set)+len(want.Outcome.SetEnv) > 0 && !reflect.DeepEqual(set, want.Outcome.SetEnv) ||
			!slices.Equal(got.unset, want.Outcome.UnsetEnv) {
			t.Fatalf("%q: %+v, want %+v", body, got, want)
		}
	})
}
