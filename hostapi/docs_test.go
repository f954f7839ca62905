package hostapi_test

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

// published are the objects that docs/events.md and docs/event.schema.json describe.
var published = []reflect.Type{
	reflect.TypeFor[hostapi.Request](), reflect.TypeFor[hostapi.ProcessID](), reflect.TypeFor[hostapi.Job](),
	reflect.TypeFor[hostapi.Owner](),
	reflect.TypeFor[hostapi.Vnode](), reflect.TypeFor[hostapi.Outcome](), reflect.TypeFor[hostapi.JobUpdate](),
	reflect.TypeFor[hostapi.HostUsage](),
	reflect.TypeFor[hostapi.DeviceUsage](), reflect.TypeFor[hostapi.RankUsage](),
	reflect.TypeFor[hostapi.Series](), reflect.TypeFor[hostapi.Pressure](), reflect.TypeFor[hostapi.KillReport](),
}

func keysOf(t reflect.Type) (keys []string) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		keys = append(keys, name)
	}
	return keys
}

func TestEventsPage(t *testing.T) {
	page, err := os.ReadFile("../docs/events.md")
	must.NoError(t, err)
	row := regexp.MustCompile("(?m)^\\| `(.*?)` \\|")
	for _, typ := range published {
		_, section, _ := strings.Cut(string(page), "\n## "+typ.Name()+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		var got []string
		for _, m := range row.FindAllStringSubmatch(section, -1) {
			got = append(got, m[1])
		}
		must.Equal(t, fmt.Sprintf("%s (-code +page)", typ.Name()), keysOf(typ), got)
	}
}

type property struct {
	Type                 any       `json:"type"`
	Ref                  string    `json:"$ref"`
	Items                *property `json:"items"`
	AdditionalProperties *property `json:"additionalProperties"`
	Enum                 []string  `json:"enum"`
	Pattern              string    `json:"pattern"`
	Description          string    `json:"description"`
}

func TestSchemaDescribesEachField(t *testing.T) {
	text, err := os.ReadFile("../docs/event.schema.json")
	must.NoError(t, err)
	var schema struct {
		Defs map[string]struct {
			Properties map[string]*property `json:"properties"`
		} `json:"$defs"`
	}
	must.NoError(t, json.Unmarshal(text, &schema))
	for _, typ := range published {
		want, got := map[string]string{}, map[string]string{}
		for f := range typ.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			want[name] = schemaType(f.Type)
		}
		for name, p := range schema.Defs[typ.Name()].Properties {
			got[name] = p.String()
			if p.Description == "" {
				t.Errorf("%s.%s has no description", typ.Name(), name)
			}
		}
		must.Equal(t, fmt.Sprintf("%s (-code +schema)", typ.Name()), want, got)
	}
	var events []string
	for _, e := range hostapi.Events() {
		events = append(events, string(e))
	}
	must.Equal(t, "events (-code +schema)", events, schema.Defs["Request"].Properties["event"].Enum)
	for _, id := range []string{"12.server", "12[3]", "12.", "x", "12.a/b", "12 "} {
		matches := regexp.MustCompile(schema.Defs["Job"].Properties["id"].Pattern).MatchString(id)
		if matches != (hostapi.CheckJobID(id) == nil) {
			t.Errorf("job id %q: the schema says %v", id, matches)
		}
	}
}

// String writes a property's type as schemaType does.
func (p *property) String() string {
	switch {
	case p.Ref != "":
		return strings.TrimPrefix(p.Ref, "#/$defs/")
	case p.Items != nil:
		return "array of " + p.Items.String()
	case p.AdditionalProperties != nil:
		return "object of " + p.AdditionalProperties.String()
	case p.Type == nil:
		return "any"
	}
	if alternatives, several := p.Type.([]any); several { // the other is null
		return alternatives[0].(string)
	}
	return p.Type.(string)
}

func schemaType(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[json.RawMessage]():
		return "any"
	case reflect.TypeFor[hostapi.Resources]():
		return "Resources"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaType(t.Elem())
	case reflect.Struct:
		return t.Name()
	case reflect.Slice:
		return "array of " + schemaType(t.Elem())
	case reflect.Map:
		return "object of " + schemaType(t.Elem())
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Float64:
		return "number"
	}
	return "integer"
}

// The programs in the pages about hooks are the ones that the tests build.
func TestPagesShowTheExamples(t *testing.T) {
	block := regexp.MustCompile("(?s)```(?:go|python)\n(.*?)```")
	for path, files := range map[string][]string{
		"../docs/hooks.md":              {"examples/deny/main.go", "examples/deny/main_test.go"},
		"../docs/hooks-any-language.md": {"examples/deny-python/hook.py"},
	} {
		page, err := os.ReadFile(path)
		must.NoError(t, err)
		var shown, want []string
		for _, m := range block.FindAllStringSubmatch(string(page), -1) {
			shown = append(shown, m[1])
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			must.NoError(t, err)
			want = append(want, string(source))
		}
		must.Equal(t, path+" (-files +page)", want, shown)
	}
}
