package openpbs

import "strings"

// variable is one variable of a launch's environment.
type variable struct {
	name, value string
	raw         string // as MoM wrote it
}

// parseEnv reads an environment as MoM writes it into IN: variables separated by commas. A comma or
// backslash of a value is preceded by a backslash (src/lib/Libattr/attr_func.c, env_array_to_str).
// Names are not escaped there, so a name with a comma is read as two variables, by MoM as well as
// here.
func parseEnv(text string) []variable {
	var all []variable
	for start, i := 0, 0; start < len(text); i++ {
		switch {
		case i >= len(text) || text[i] == ',':
			i = min(i, len(text))
			all = append(all, parseVariable(text[start:i]))
			start = i + 1
		case text[i] == '\\':
			i++
		}
	}
	return all
}

func parseVariable(raw string) variable {
	name, value, _ := strings.Cut(raw, "=")
	return variable{name: name, value: unescape(value), raw: raw}
}

func unescape(text string) string {
	if strings.IndexByte(text, '\\') < 0 {
		return text
	}
	b := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			i++
		}
		b = append(b, text[i])
	}
	return string(b)
}

var escaper = strings.NewReplacer(`\`, `\\`, `,`, `\,`)

// newVariable is the inverse of parseVariable.
func newVariable(name, value string) variable {
	return variable{name: name, value: value, raw: name + "=" + escaper.Replace(value)}
}

// passes reports whether MoM reads a variable from OUT unchanged. MoM does not read a name that
// contains a separator. After an escaped backslash, MoM takes a comma for the end of the variable,
// because strtok_quoted looks back only two bytes. So no value with \, can be written.
func (v variable) passes() bool {
	return v.name != "" && !strings.ContainsAny(v.name, "=,\\\x00") && strings.IndexByte(v.value, 0) < 0 &&
		!strings.Contains(v.value, `\,`)
}

// changedEnv returns env with the variables that c sets and unsets. Other variables keep their
// place and every byte. New ones come last. A changed variable that occurs twice is kept only once.
func changedEnv(env []variable, c *Changes) []variable {
	set := map[string]string{}
	gone := map[string]bool{}
	var order []string
	for _, change := range c.List {
		switch change.Verb {
		case verbSetenv:
			name := change.Fields[0]
			if _, again := set[name]; !again {
				order = append(order, name)
			}
			set[name] = change.Fields[1]
			delete(gone, name)
		case verbUnsetenv:
			gone[change.Fields[0]] = true
		}
	}
	if len(set) == 0 && len(gone) == 0 {
		return env
	}
	all := make([]variable, 0, len(env)+len(set))
	done := map[string]bool{}
	for _, v := range env {
		value, changed := set[v.name]
		switch {
		case gone[v.name] || done[v.name]:
		case changed:
			all = append(all, newVariable(v.name, value))
			done[v.name] = true
		default:
			all = append(all, v)
		}
	}
	for _, name := range order {
		if !gone[name] && !done[name] {
			all = append(all, newVariable(name, set[name]))
		}
	}
	return all
}

// formatEnv formats an environment for OUT, without the quotes around it. MoM ends the value at a
// line that ends with triple quotes. If a variable has such a line, a backslash before the last
// quote prevents that. MoM removes the backslash again.
func formatEnv(env []variable) string {
	var b strings.Builder
	for i, v := range env {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(v.raw)
	}
	return strings.ReplaceAll(b.String(), "\"\"\"\n", "\"\"\\\"\n")
}
