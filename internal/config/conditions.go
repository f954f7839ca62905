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
// LIST is a list of shell patterns (fnmatch(3): * ? [abc] [!abc]) separated by commas. A condition
// is true if one of them (with "not", none of them) matches the vntype or the name of this host.
// Openpbs pbs_cgroups.PY evaluates conditional booleans in the same way. So one file serves all
// nodes of a cluster.
//
// Conditions can be joined by the words and, or; and binds closer:
//
//	"vntype not in: login and host not in: n1,n2 or host in: n3"

// Here holds the values that conditions are evaluated for.
type Here struct {
	// Host is this host's name up to the first dot. host.node of the file takes precedence.
	Host string
	// Vntype is resources_available.vntype of this host's natural vnode; "" if the node has none.
	Vntype string
}

// UnknownVntype is the vntype in conditions if the node has none, as in pbs_cgroups.
const UnknownVntype = "__UNKNOWN__"

// Condition is a boolean of the file that was written as a condition.
type Condition struct {
	Key   string // "memory.enabled"
	Line  int    // counted from 1
	Text  string // as it was written, without quotes
	Value bool   // its value on this host
}

// OnVntype reports whether a condition depends on the vntype.
func (c Condition) OnVntype() bool { return onVntype.MatchString(c.Text) }

// Conditions returns the conditions of f, in the order of its text.
func (f *File) Conditions() []Condition {
	_, list, _ := resolve(f.text, f.here) // an error was reported when it was parsed
	return list
}

// resolve returns the text with true or false in place of each condition. Nothing else moves, so an
// error of the decoder names the line that the author sees. A text that is not TOML is returned
// unchanged, because the decoder reports the mistake.
func resolve(b []byte, here Here) ([]byte, []Condition, error) {
	found := booleans(b)
	if len(found) == 0 {
		return b, nil, nil
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

// replace writes the value over a quoted string. The string's newlines follow it, so that line
// numbers stay the same.
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

// CheckCondition returns an error unless the text is a condition, or several joined ones.
func CheckCondition(text string) error {
	_, err := Here{}.holds(text)
	return err
}

// holds reports whether a condition, or several joined ones, is true on this host. It fails if a
// part is malformed, even if the result does not depend on it.
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

// holdsOne is holds for a single condition.
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

// match is fnmatch(3) without flags: * also matches a slash. It fails for a [ without its ]. In
// fnmatch that is an ordinary character, so a set that lost its end would match nothing. A blank is
// refused, because it is probably the rest of an "and" without a right side.
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
		case part == "[": // without its ]: not a valid expression
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

// found is a string in the place of a boolean.
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

// stringAt returns the string at key in the text.
func stringAt(b []byte, key ...string) (found string, there bool) {
	walk(b, func(at []string, _ int, value *unstable.Node) {
		if value.Kind == unstable.String && slices.EqualFunc(at, key, strings.EqualFold) {
			found, there = string(value.Data), true
		}
	})
	return found, there
}

// OpenPBSOf returns the location of PBS in the text of a configuration file. The vntype, which
// conditions need, is in one of PBS's files. Parse reports mistakes in the text.
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

// isBoolean reports whether the key is a boolean of the schema.
func isBoolean(t reflect.Type, key []string) bool {
	at := typeAt(t, key)
	return at != nil && at.Kind() == reflect.Bool
}

// typeAt returns the type at key in the schema t, or nil. A list of tables has the keys of its
// tables.
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
		// The decoder ignores the case of names in the file.
		if name, _, _ := strings.Cut(field.Tag.Get("toml"), ","); strings.EqualFold(name, key[0]) {
			return typeAt(field.Type, key[1:])
		}
	}
	return nil
}

// walk calls see for each value of the text that is not a table, with the line of its key. It stops
// at the first mistake.
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

// walkAll is walk that also enters lists of tables. There a value's key begins with the list's:
// private.dirs.size.
func walkAll(b []byte, see func(key []string, line int, value *unstable.Node)) {
	var enter func(key []string, line int, value *unstable.Node)
	enter = func(key []string, line int, value *unstable.Node) {
		see(key, line, value)
		if value.Kind != unstable.Array {
			return
		}
		for list := value.Children(); list.Next(); {
			for table := list.Node().Children(); list.Node().Kind == unstable.InlineTable && table.Next(); {
				walkValue(b, key, table.Node(), enter)
			}
		}
	}
	walk(b, enter)
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

// keyOf returns the parts of a key, and the position of the first of them in the text.
func keyOf(e *unstable.Node) (key []string, at int) {
	for it := e.Key(); it.Next(); {
		if key == nil {
			at = int(it.Node().Raw.Offset)
		}
		key = append(key, string(it.Node().Data))
	}
	return key, at
}
