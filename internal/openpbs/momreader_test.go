package openpbs

import (
	"bytes"
	"strings"
)

// momOutput is what pbs_mom makes of OUT: get_hook_results of src/resmom/mom_hook_func.c in Go, for
// the keys that are used here. The reader below it is strtok_quoted, byte for byte, oddities
// included.
type momOutput struct {
	values map[string]string // of everything but argv and env
	argv   []string
	env    []string
	failed bool // MoM takes the whole file for unusable
}

func momRead(out []byte) momOutput {
	o := momOutput{values: map[string]string{}}
	lines := bytes.SplitAfter(out, []byte("\n"))
	for i := 0; i < len(lines); i++ {
		data := string(lines[i])
		if data == "" {
			continue
		}
		begins := false
		if _, value, ok := strings.Cut(data, "="); ok {
			begins = strings.HasPrefix(value, `"""`)
		}
		ends := momEndsQuoted(data)
		if begins && !ends {
			for i+1 < len(lines) && lines[i+1] != nil && len(lines[i+1]) > 0 {
				i++
				data += string(lines[i])
				if ends = momEndsQuoted(data); ends {
					break
				}
			}
			if !ends {
				continue // "unmatched triple quotes! Skipping line"
			}
		}
		data = strings.TrimSuffix(data, "\n")
		key, value, ok := strings.Cut(data, "=")
		if !ok {
			o.failed = true // "no value given"
			return o
		}
		value = strings.TrimLeft(value, " \t\n\v\f\r")
		if begins {
			value = value[3:]
		}
		if ends && momEndsQuoted(value) {
			value = value[:len(value)-3]
		}
		switch {
		case key == "pbs.event().env":
			o.env = momSplit(value)
		case strings.HasPrefix(key, "pbs.event().argv["):
			o.argv = append(o.argv, value)
		default:
			o.values[key] = value
		}
	}
	return o
}

// momEndsQuoted is ends_with_triple_quotes.
func momEndsQuoted(text string) bool {
	return len(text) >= 3 && strings.HasSuffix(strings.TrimSuffix(text, "\n"), `"""`)
}

// momSplit is str_to_str_array(text, ','). The NUL bytes at the end are those that end a string in
// C.
func momSplit(text string) []string {
	s := []byte(text + "\x00\x00")
	var all []string
	for pc := 0; pc >= 0; {
		token, next, ok := momToken(s, pc)
		if !ok {
			break
		}
		all = append(all, momPrune(token))
		pc = next
	}
	return all
}

// momToken is strtok_quoted. next is -1 where it sets its pointer to NULL.
func momToken(s []byte, start int) (token []byte, next int, ok bool) {
	const delimiter, escape = ',', '\\'
	if s[start] == 0 {
		return nil, 0, false
	}
	separates := func(pc int) bool {
		return s[pc] == delimiter && (pc-1 < start || s[pc-1] != escape || pc-2 < start || s[pc-2] == escape)
	}
	pc := start
	for ; s[pc] != 0; pc++ {
		if separates(pc) {
			return s[start:pc], pc + 1, true
		}
		if s[pc] != '\'' && s[pc] != '"' {
			continue
		}
		if s[pc+1] == 0 || s[pc+1] == delimiter {
			pc++
			if s[pc] != 0 {
				return s[start:pc], pc + 1, true
			}
			return s[start:pc], pc, true
		}
		quote, closed := s[pc], false
		for pc++; s[pc] != 0; pc++ {
			if s[pc] == quote {
				if s[pc+1] == 0 || s[pc+1] == delimiter {
					closed = true
					break
				}
			} else if separates(pc) {
				return s[start:pc], pc + 1, true
			}
		}
		if !closed {
			return s[start:pc], -1, true
		}
	}
	return s[start:pc], pc, true
}

// momPrune is prune_esc_backslash.
func momPrune(token []byte) string {
	str := append(bytes.Clone(token), 0)
	s, skip := 0, -2
	var d []byte
	for {
		for str[s] == '\\' && skip != s-1 {
			skip = s
			s++
		}
		d = append(d, str[s])
		s++
		if str[s-1] == 0 {
			return string(d[:len(d)-1])
		}
	}
}

// momFormat is env_array_to_str(env, ',').
func momFormat(env []string) string {
	var b strings.Builder
	for i, v := range env {
		if i > 0 {
			b.WriteByte(',')
		}
		name, value, _ := strings.Cut(v, "=")
		b.WriteString(name + "=" + strings.NewReplacer(`\`, `\\`, `,`, `\,`).Replace(value))
	}
	return b.String()
}
