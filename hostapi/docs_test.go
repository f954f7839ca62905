package hostapi_test

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/hostapi"
)

// published are the objects that docs/events.md and docs/event.schema.json describe.
var published = []reflect.Type{
	reflect.TypeFor[hostapi.Request](), reflect.TypeFor[hostapi.ProcessID](), reflect.TypeFor[hostapi.Job](), reflect.TypeFor[hostapi.Owner](),
	reflect.TypeFor[hostapi.Vnode](), reflect.TypeFor[hostapi.Outcome](), reflect.TypeFor[hostapi.JobUpdate](),
	reflect.TypeFor[hostapi.Join](), reflect.TypeFor[hostapi.Rlimit](), reflect.TypeFor[hostapi.HostUsage](),
	reflect.TypeFor[hostapi.DeviceUsage](), reflect.TypeFor[hostapi.Pressure](), reflect.TypeFor[hostapi.KillReport](),
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
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `(.*?)` \\|")
	for _, typ := range published {
		_, section, _ := strings.Cut(string(page), "\n## "+typ.Name()+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		var got []string
		for _, m := range row.FindAllStringSubmatch(section, -1) {
			got = append(got, m[1])
		}
		if diff := cmp.Diff(keysOf(typ), got); diff != "" {
			t.Errorf("%s (-code +page):\n%s", typ.Name(), diff)
		}
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

func TestSchema(t *testing.T) {
	text, err := os.ReadFile("../docs/event.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Defs map[string]struct {
			Properties map[string]*property `json:"properties"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
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
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-code +schema):\n%s", typ.Name(), diff)
		}
	}
	var events []string
	for _, e := range hostapi.Events() {
		events = append(events, string(e))
	}
	if diff := cmp.Diff(events, schema.Defs["Request"].Properties["event"].Enum); diff != "" {
		t.Errorf("events (-code +schema):\n%s", diff)
	}
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

// What docs/hooks.md shows is the program that the tests build.
func TestHooksPage(t *testing.T) {
	page, err := os.ReadFile("../docs/hooks.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	for i, path := range []string{"../testdata/hooks/deny/main.go", "../testdata/hooks/deny/main_test.go"} {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if i >= len(blocks) {
			t.Fatalf("%d blocks of Go", len(blocks))
		}
		if diff := cmp.Diff(string(source), blocks[i][1]); diff != "" {
			t.Errorf("%s (-file +page):\n%s", path, diff)
		}
	}
}
