package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// adviceTable is a valid table, with a line replaced.
func adviceTable(line string) string {
	key, _, _ := strings.Cut(line, " ")
	table := "[[advice]]\n"
	for _, valid := range []string{`when = "cpu_efficiency < 10%"`, `text = "Ask for less."`,
		`link = "https://hpc.example/cpus"`} {
		if strings.HasPrefix(valid, key+" ") {
			valid = line
		}
		table += valid + "\n"
	}
	return table
}

func TestAdviceOfTheSiteIsChecked(t *testing.T) {
	for line, want := range map[string]string{
		`when = "cpu_efficiency < 10%"`:   "",
		`link = ""`:                       "",
		`when = "cpu_percent < 20"`:       `advice 1: when: figure "cpu_percent": not one of job, name, owner`,
		`when = "1 + 1"`:                  `advice 1: when: "1 + 1": want FIGURE < VALUE`,
		`text = " "`:                      "advice 1: text: want what the job's owner should know",
		`text = "a\nb"`:                   "advice 1: text: want one line of at most 300 bytes",
		`link = "javascript:alert(1)"`:    `advice 1: link = "javascript:alert(1)": want a URL`,
		`link = "hpc.example/cpus"`:       `advice 1: link = "hpc.example/cpus": want a URL`,
		`link = "https://hpc.example/ x"`: `advice 1: link`,
	} {
		f, err := Parse([]byte(adviceTable(line)), Here{})
		switch {
		case want == "" && (err != nil || len(f.Advice) != 1):
			t.Errorf("%s: %v", line, err)
		case want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)):
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
	if _, err := Parse([]byte(strings.Repeat(adviceTable("x"), 65)), Here{}); err == nil {
		t.Error("65 tables are taken")
	}
}

// Advice is shown as it was written, and taken again; without it there is an example that is taken.
func TestShownHasTheAdvice(t *testing.T) {
	f, err := Parse([]byte(adviceTable("x")+adviceTable(`link = ""`)), Here{})
	must.NoError(t, err)
	text, err := f.TOML()
	must.NoError(t, err)
	again, err := Parse(text, Here{})
	if err != nil || !reflect.DeepEqual(again.Advice, f.Advice) || len(f.Advice) != 2 ||
		strings.Contains(string(text), "# [[advice]]") || !strings.Contains(string(text), "# [[device]]") {
		t.Errorf("%+v, %v of\n%s", again, err, text)
	}
	text, err = Default().TOML()
	must.NoError(t, err)
	_, example, found := strings.Cut(string(text), "# [[advice]]\n")
	table := "[[advice]]\n"
	for line := range strings.Lines(example) {
		if line = strings.TrimPrefix(line, "# "); strings.Contains(line, " = ") {
			table += line
		}
	}
	if f, err := Parse([]byte(table), Here{}); !found || err != nil || len(f.Advice) != 1 {
		t.Errorf("the example in %s\nis not taken: %v", example, err)
	}
}
