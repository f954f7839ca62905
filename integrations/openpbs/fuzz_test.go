package openpbs

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// FuzzParsePrint reads what qmgr prints of a hook, also with a script that hookhost has imported.
func FuzzParsePrint(f *testing.F) {
	f.Add("create hook h\nset hook h event = execjob_begin\nset hook h event += execjob_end\n"+
		"import hook h application/x-python base64 -\naW1wb3J0\n\n", []byte("import pbs\n"))
	f.Add("import hook h application/x-config base64 -\n", bytes.Repeat([]byte{0}, 600))
	f.Add("set hook h a = \"b\" c\n", []byte{})
	f.Fuzz(func(t *testing.T, text string, script []byte) {
		if h, err := ParsePrint(text); (h == nil) == (err == nil) || err != nil && len(err.Error()) > 1024+4*len(text) {
			t.Errorf("%q: %+v, %v", text, h, err)
		}
		printed := fmt.Sprintf("create hook h\nimport hook h %s base64 -\n%s\nset hook h order = 1\n", typeScript,
			encode(script))
		h, err := ParsePrint(printed)
		if err != nil || !bytes.Equal(h.Script, script) || h.Attributes["order"] != "1" || h.Config != nil {
			t.Errorf("%q: %+v, %v", printed, h, err)
		}
	})
}

// FuzzObjects reads an answer of qmgr to `list`, a control file and the server's tracking file.
func FuzzObjects(f *testing.F) {
	f.Add("Hook a\n    type = site\n    event = execjob_begin,\n\texecjob_end\n\nHook b\n    enabled = true\n")
	f.Add("hook_name=a\nalarm=30\n#x=y\nevent=\n")
	f.Add("n1:15002 a 3 12\nn1:15002 a 0 12\nn2 a 1 -5\n")
	f.Fuzz(func(t *testing.T, text string) {
		for name, h := range ParseList(text) {
			if h.Name != name || h.Attributes == nil || strings.Contains(name, "\n") {
				t.Errorf("%q: %q is %+v", text, name, h)
			}
		}
		h := ParseControl("a", []byte(text))
		control := ""
		for _, key := range slices.Sorted(maps.Keys(h.Attributes)) {
			control += key + "=" + h.Attributes[key] + "\n"
		}
		if again := ParseControl("a", []byte(control)); !maps.Equal(again.Attributes, h.Attributes) {
			t.Errorf("%q: %q, then %q", text, h.Attributes, again.Attributes)
		}
		pending := Pending([]byte(text), "a")
		if !slices.IsSorted(pending) || len(slices.Compact(slices.Clone(pending))) != len(pending) {
			t.Errorf("%q: %q", text, pending)
		}
		for _, host := range pending {
			done := text + "\n" + host + ":1 a 0 9223372036854775807\n"
			if slices.Contains(Pending([]byte(done), "a"), host) {
				t.Errorf("%q: %s has it and is pending", done, host)
			}
		}
	})
}
