package config

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Any boolean of the file may be a condition instead of true or false: a string in one of four
// forms.
//
//	"vntype in: LIST"   "vntype not in: LIST"   "host in: LIST"   "host not in: LIST"
//
// LIST is shell patterns (fnmatch(3): * ? [abc] [!abc]) with commas between them. A condition is
// true if one of them, or with "not" none of them, matches the vntype or the name of this host. So
// does a conditional boolean of openpbs pbs_cgroups.PY. A file serves all nodes of a cluster.
//
// Several are joined by the words and, or; and binds closer:
//
//	"vntype not in: login and host not in: n1,n2 or host in: n3"

// Here is what conditions are resolved by.
type Here struct {
	// Host is this host's name up to the first dot. host.node of the file replaces it.
	Host string
	// Vntype is resources_available.vntype of this host's natural vnode; "" where the node has
	// none.
	Vntype string
}

// UnknownVntype is what conditions read where the node has no vntype, as in pbs_cgroups.
const UnknownVntype = "__UNKNOWN__"

// Condition is a boolean of the file that was written as a condition.
type Condition struct {
	Key   string // "memory.enabled"
	Line  int    // counted from 1
	Text  string // as it was written, without quotes
	Value bool   // what it is on this host
}

// OnVntype returns true for a condition that asks for the vntype.
func (c Condition) OnVntype() bool { return onVntype.MatchString(c.Text) }

// Conditions returns the conditions of the layers of f, or of all where none is named, in their
// order.
func (f *File) Conditions(layers ...Layer) []Condition {
	if len(layers) == 0 {
		layers = f.layers
	}
	var all []Condition
	for _, l := range layers {
		_, list, _ := resolve(l.Text, f.here) // that failed when it was parsed, or not at all
		all = append(all, list...)
	}
	return all
}

// resolve returns the text with true or false in the place of each condition. Nothing else moves:
// an error of the decoder names the line that the author sees. A text that is no TOML comes back as
// it is, since the decoder says what is wrong with it.
func resolve(b []byte, here Here) ([]byte, []Condition, error) {
	found := booleans(b)
	if len(found) == 0 {
		return b, nil, nil
	}
	if node, _ := stringAt(b, "host", "node"); node != "" {
		here.Host = node
	}
	resolved := slices.Clone(b)
	var list []Condition
	for _, s := range found {
		line := 1 + bytes.Count(b[:s.at], []byte{'\n'})
		value, err := here.holds(s.text)
		if err != nil {
			return nil, nil, fmt.Errorf("line %d: %s: %w", line, s.key, err)
		}
		list = append(list, Condition{Key: s.key, Line: line, Text: s.text, Value: value})
		replace(resolved[s.at:s.at+s.length], value)
	}
	return resolved, list, nil
}

// replace writes the value over a string in quotes. As many newlines as the string had come after
// it.
func replace(raw []byte, value bool) {
	newlines := bytes.Count(raw, []byte{'\n'})
	n := copy(raw, fmt.Sprint(value))
	for i := n; i < len(raw); i++ {
		raw[i] = ' '
		if i >= len(raw)-newlines {
			raw[i] = '\n'
		}
	}
}

var (
	conditionForm = regexp.MustCompile(`(?is)^\s*(vntype|host)\s+(not\s+)?in\s*:(.*)$`)
	joint         = regexp.MustCompile(`(?is)\s(and|or)\s+(?:vntype|host)\s+(?:not\s+)?in\s*:`)
	onVntype      = regexp.MustCompile(`(?i)(?:^|\s)vntype\s+(?:not\s+)?in\s*:`)
	errCondition  = errors.New(`want true, false, or a condition: ` +
		`"vntype in: LIST", "vntype not in: LIST", "host in: LIST" or "host not in: LIST"`)
)

// CheckCondition returns an error unless the text is a condition, or several that are joined.
func CheckCondition(text string) error {
	_, err := Here{}.holds(text)
	return err
}

// holds returns true if a condition, or several that are joined, is true on this host. holds fails
// if a part is not well formed, whether the result depends on it or not.
func (h Here) holds(text string) (bool, error) {
	any, all, start := false, true, 0
	for _, at := range append(joint.FindAllStringSubmatchIndex(text, -1), nil) {
		end, and := len(text), false
		if at != nil {
			end, and = at[0], strings.EqualFold(text[at[2]:at[3]], "and")
		}
		one, err := h.holdsOne(text[start:end])
		if err != nil {
			return false, err
		}
		if all = all && one; !and {
			any, all = any || all, true
		}
		if at != nil {
			start = at[3]
		}
	}
	return any, nil
}

// holdsOne is holds of a condition of one form.
func (h Here) holdsOne(text string) (bool, error) {
	form := conditionForm.FindStringSubmatch(text)
	if form == nil {
		return false, fmt.Errorf("%q: %w", text, errCondition)
	}
	subject := h.Host
	if strings.EqualFold(form[1], "vntype") {
		if subject = h.Vntype; subject == "" {
			subject = UnknownVntype
		}
	}
	in := false
	for pattern := range strings.SplitSeq(form[3], ",") {
		matches, err := match(strings.TrimSpace(pattern), subject)
		if err != nil {
			return false, fmt.Errorf("%q: %w", text, err)
		}
		in = in || matches
	}
	return in == (form[2] == ""), nil
}

// patternPart is a part of a shell pattern: a set, whose first member may be a ], or a character.
var patternPart = regexp.MustCompile(`(?s)\[!?\]?[^\]]*\]|.`)

// match is fnmatch(3) without flags: * matches a slash, too. match fails for a [ without its ],
// which is an ordinary character there: a set that lost its end would hold nowhere. A blank is
// refused as what is left of an "and" that nothing follows.
func match(pattern, text string) (bool, error) {
	switch {
	case pattern == "":
		return false, errors.New("empty pattern")
	case strings.ContainsFunc(pattern, unicode.IsSpace):
		return false, fmt.Errorf("pattern %q: a blank in it; conditions are joined by and, or", pattern)
	}
	body := patternPart.ReplaceAllStringFunc(pattern, func(part string) string {
		switch {
		case part == "*":
			return ".*"
		case part == "?":
			return "."
		case part == "[": // without its ]: no expression
			return part
		case strings.HasPrefix(part, "["):
			return setExpression(part)
		}
		return regexp.QuoteMeta(part)
	})
	expression, err := regexp.Compile(`(?s)\A` + body + `\z`)
	if err != nil {
		return false, fmt.Errorf("pattern %q: not a shell pattern", pattern)
	}
	return expression.MatchString(text), nil
}

// setExpression returns the regular expression for a set of a shell pattern, such as [!a-c].
func setExpression(set string) string {
	members, not := strings.CutPrefix(set[1:len(set)-1], "!")
	escape := strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`, `^`, `\^`, `&`, `\&`)
	if members = escape.Replace(members); not {
		members = "^" + members
	}
	return "[" + members + "]"
}

// found is a string of a file at the key of a boolean.
type found struct {
	key, text  string
	at, length int // of the string with its quotes
}

// booleans returns the strings that stand where the schema has a boolean.
func booleans(b []byte) []found {
	var list []found
	walk(b, func(key []string, _ int, value *unstable.Node) {
		if value.Kind == unstable.String && isBoolean(reflect.TypeFor[File](), key) {
			name, text := strings.Join(key, "."), string(value.Data)
			list = append(list, found{name, text, int(value.Raw.Offset), int(value.Raw.Length)})
		}
	})
	return list
}

// stringAt returns the string that the text has at key.
func stringAt(b []byte, key ...string) (found string, there bool) {
	walk(b, func(at []string, _ int, value *unstable.Node) {
		if value.Kind == unstable.String && slices.EqualFunc(at, key, strings.EqualFold) {
			found, there = string(value.Data), true
		}
	})
	return found, there
}

// OpenPBSOf returns where PBS is, by the text of a configuration file. The vntype, which conditions
// need, is in a file of PBS's. A mistake in the text is left to Parse.
func OpenPBSOf(text []byte) OpenPBS {
	o := Default().OpenPBS
	if home, there := stringAt(text, "openpbs", "home"); there {
		o.Home = home
	}
	if conf, there := stringAt(text, "openpbs", "conf"); there {
		o.Conf = conf
	}
	return o
}

// isBoolean returns true for the key of a boolean of the schema.
func isBoolean(t reflect.Type, key []string) bool {
	at := typeAt(t, key)
	return at != nil && at.Kind() == reflect.Bool
}

// typeAt returns the type that the schema t has at key, nil for none. A list of tables has the keys
// of its tables.
func typeAt(t reflect.Type, key []string) reflect.Type {
	if len(key) == 0 {
		return t
	}
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for _, field := range reflect.VisibleFields(t) {
		// Names in the file may be in any case: the decoder takes them so.
		if name, _, _ := strings.Cut(field.Tag.Get("toml"), ","); strings.EqualFold(name, key[0]) {
			return typeAt(field.Type, key[1:])
		}
	}
	return nil
}

// walk calls see for each value of the text that is not a table, with the line of its key, up to
// the first mistake.
func walk(b []byte, see func(key []string, line int, value *unstable.Node)) {
	var p unstable.Parser
	p.Reset(b)
	var table []string
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table, _ = keyOf(e)
		case unstable.KeyValue:
			walkValue(b, table, e, see)
		}
	}
}

func walkValue(b []byte, table []string, e *unstable.Node, see func([]string, int, *unstable.Node)) {
	own, at := keyOf(e)
	key := append(slices.Clip(table), own...)
	value := e.Value()
	if value.Kind != unstable.InlineTable {
		see(key, 1+bytes.Count(b[:at], []byte{'\n'}), value)
		return
	}
	for it := value.Children(); it.Next(); {
		if child := it.Node(); child.Kind == unstable.KeyValue {
			walkValue(b, key, child, see)
		}
	}
}

// keyOf returns the parts of a key, and where in the text the first of them is.
func keyOf(e *unstable.Node) (key []string, at int) {
	for it := e.Key(); it.Next(); {
		if key == nil {
			at = int(it.Node().Raw.Offset)
		}
		key = append(key, string(it.Node().Data))
	}
	return key, at
}
