package devrule

import (
	"fmt"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

func mustRules(t testing.TB, texts ...string) []Rule {
	t.Helper()
	var rules []Rule
	for _, text := range texts {
		r, err := ParseRule(text)
		must.NoError(t, err)
		rules = append(rules, r)
	}
	return rules
}

func texts(rules []Rule) []string {
	list := []string{}
	for _, r := range rules {
		list = append(list, r.String())
	}
	return list
}

func TestParseRule(t *testing.T) {
	for text, want := range map[string]string{
		"c 195:* rwm":         "c 195:* rwm",
		"b 7:0 r":             "b 7:0 r",
		" b\t*:*  mw\n":       "b *:* wm",
		"a *:* rwm":           "a *:* rwm",
		"c 4095:1048575 r":    "c 4095:1048575 r",
		"":                    `error: device rule "": want "KIND MAJOR:MINOR ACCESS"`,
		"a":                   `error: device rule "a": want "KIND MAJOR:MINOR ACCESS"`,
		"c 1:3":               `error: device rule "c 1:3": want "KIND MAJOR:MINOR ACCESS"`,
		"c 1:3 r w":           `error: device rule "c 1:3 r w": want "KIND MAJOR:MINOR ACCESS"`,
		"x 1:3 r":             `error: device rule "x 1:3 r": kind "x": want b, c or a`,
		"c 1 r":               `error: device rule "c 1 r": device "1": want MAJOR:MINOR`,
		"c 4096:0 r":          `error: device rule "c 4096:0 r": major number: "4096": want * or a number up to 4095`,
		"c 1:1048576 r":       `error: device rule "c 1:1048576 r": minor number: "1048576": want * or a number up to 1048575`,
		"c 1:4294967295 r":    `error: device rule "c 1:4294967295 r": minor number: "4294967295": want * or a number up to 1048575`,
		"c -1:0 r":            `error: device rule "c -1:0 r": major number: "-1": want * or a number up to 4095`,
		"c +1:0 r":            `error: device rule "c +1:0 r": major number: "+1": want * or a number up to 4095`,
		"c :0 r":              `error: device rule "c :0 r": major number: "": want * or a number up to 4095`,
		"c 1:3 rx":            `error: device rule "c 1:3 rx": access "rx": want some of the letters r, w, m`,
		"c 1:3 rr":            `error: device rule "c 1:3 rr": access "rr": want some of the letters r, w, m`,
		"c 1:3 -":             `error: device rule "c 1:3 -": access "-": want some of the letters r, w, m`,
		"c 1:3 \u00a0r\u00a0": "c 1:3 r",
	} {
		r, err := ParseRule(text)
		got := r.String()
		if err != nil {
			got = "error: " + err.Error()
			if r != (Rule{}) {
				t.Errorf("ParseRule(%q) = %v with an error, want the zero value", text, r)
			}
		}
		if got != want {
			t.Errorf("ParseRule(%q) = %s, want %s", text, got, want)
		}
	}
}

func FuzzParseRule(f *testing.F) {
	for _, seed := range []string{"c 195:* rwm", "b 7:0 r", "a *:* m", "c 1:4294967295 r", "c 1:3 rr", "",
		"c  1:3\trw\n", "c 01:3 r"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRule(text)
		if err != nil {
			if r != (Rule{}) {
				t.Errorf("ParseRule(%q) = %v with an error", text, r)
			}
			return
		}
		again, err := ParseRule(r.String())
		if err != nil || again != r {
			t.Errorf("ParseRule(%q) = %v, parsed again: %v, %v", text, r, again, err)
		}
	})
}

func TestAllowsNeedsOneRuleForAllOfAnAccess(t *testing.T) {
	rules := func(texts ...string) []string { return texts }
	for _, tt := range []struct {
		rules   []string
		request string // as a rule
		want    bool
	}{
		{rules(), "c 1:3 r", false},
		{rules("c 1:3 r"), "c 1:3 r", true},
		{rules("c 1:3 r"), "c 1:3 rw", false},
		{rules("c 1:3 r"), "c 1:3 w", false},
		{rules("c 1:3 r"), "b 1:3 r", false},
		{rules("a 1:3 r"), "b 1:3 r", true},
		{rules("c 1:3 r"), "c 1:5 r", false},
		{rules("c 1:3 r"), "c 2:3 r", false},
		{rules("c 1:* r"), "c 1:5 r", true},
		{rules("c *:3 r"), "c 9:3 r", true},
		{rules("c *:* r"), "c 9:9 r", true},
		{rules("c *:* r"), "b 9:9 r", false},
		{rules("c 1:3 r", "c 1:3 w"), "c 1:3 rw", true},    // one rule in the kernel
		{rules("a 1:3 r", "c 1:3 w"), "c 1:3 rw", true},    // for c, one
		{rules("a 1:3 r", "c 1:3 w"), "b 1:3 rw", false},   // and for b not
		{rules("c 1:* r", "c 1:3 w"), "c 1:3 rw", false},   // two rules there
		{rules("c 1:* r", "c 1:3 w"), "c 1:3 w", true},     //
		{rules("c 1:3 rw"), "c 1:3 m", false},              //
		{rules("c *:* m", "c 1:3 rw"), "c 7:7 m", true},    //
		{rules("c *:* m", "c 1:3 rw"), "c 1:3 rwm", false}, //
	} {
		r := mustRules(t, tt.request)[0]
		if got := Allows(mustRules(t, tt.rules...), r.Kind, r.Major, r.Minor, r.Access); got != tt.want {
			t.Errorf("rules %q allow %q: %v, want %v", tt.rules, tt.request, got, tt.want)
		}
	}
	if Allows([]Rule{{}, {Kind: Char, Major: 1, Minor: 3}}, Char, 1, 3, 0) {
		t.Error("a rule without access allows something")
	}
}

func TestNormaliseMakesTheShortestList(t *testing.T) {
	for _, tt := range []struct{ rules, want []string }{
		{nil, []string{}},
		{[]string{"c 1:5 r", "b 7:0 r", "c 1:3 r"}, []string{"b 7:0 r", "c 1:3 r", "c 1:5 r"}},
		{[]string{"c 1:3 m", "c 1:3 r", "c 1:3 r"}, []string{"c 1:3 rm"}},
		{[]string{"a 1:3 r"}, []string{"b 1:3 r", "c 1:3 r"}},
		{[]string{"c 1:* rw", "c 1:3 r", "c 1:4 rm"}, []string{"c 1:4 rm", "c 1:* rw"}},
		{[]string{"c *:* r", "c 1:* r", "c *:3 r", "c 1:3 r", "b 1:3 r"}, []string{"b 1:3 r", "c *:* r"}},
		{[]string{"c *:3 r", "c 1:3 r", "c 1:* w"}, []string{"c 1:* w", "c *:3 r"}},
	} {
		must.Equal(t, fmt.Sprintf("normalise %q", tt.rules), tt.want, texts(Normalise(mustRules(t, tt.rules...))))
	}
}

func TestAccessString(t *testing.T) {
	for a, want := range map[Access]string{0: "", Read: "r", Write | Mknod: "wm", All: "rwm"} {
		if got := fmt.Sprint(a); got != want {
			t.Errorf("access %d is %q, want %q", uint8(a), got, want)
		}
	}
}
