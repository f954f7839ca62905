package openpbs

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
)

// Hook is a hook of the server.
type Hook struct {
	Name       string
	Attributes map[string]string // as in `list hook`: "event" is a comma list
	Script     []byte            // nil where none was imported
	Config     []byte            // nil where none was imported
}

// Enabled reports whether the hook is called at all.
func (h *Hook) Enabled() bool { return h != nil && h.Attributes["enabled"] == "true" }

// ParseList reads the answer to `list hook`.
func ParseList(text string) map[string]*Hook {
	hooks := map[string]*Hook{}
	for name, attributes := range parseObjects(text, "Hook") {
		hooks[name] = &Hook{Name: name, Attributes: attributes}
	}
	return hooks
}

// parseObjects reads the answer to `list`: each object's kind and name on a line, with its
// attributes indented below. A value of more than 80 columns continues after a comma on lines that
// begin with a tab (display in qmgr.c). The result has the attributes by the object's name.
func parseObjects(text, kind string) map[string]map[string]string {
	objects := map[string]map[string]string{}
	var attributes map[string]string
	last := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		name, isName := strings.CutPrefix(line, kind+" ")
		key, value, isAttribute := strings.Cut(strings.TrimSpace(line), " = ")
		switch {
		case isName:
			attributes, last = map[string]string{}, ""
			objects[strings.TrimSpace(name)] = attributes
		case attributes != nil && last != "" && strings.HasPrefix(line, "\t"):
			attributes[last] += strings.TrimSpace(line)
		case attributes != nil && isAttribute:
			last = key
			attributes[key] = strings.Trim(value, `"`)
		default:
			last = ""
		}
	}
	return objects
}

// ParsePrint reads the answer to `print hook NAME`: the directives that would create the hook. Each
// element of a list is a separate directive. Script and configuration are base64 that ends with an
// empty line (display in qmgr.c). After a line of 512 characters, the most that qmgr reads at once,
// the empty line is missing. ParsePrint fails if the base64 is cut off or invalid.
func ParsePrint(text string) (*Hook, error) {
	h := &Hook{Attributes: map[string]string{}}
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		words := strings.Fields(lines[i])
		switch {
		case len(words) == 3 && words[0] == "create" && words[1] == "hook":
			h.Name = words[2]
		case len(words) >= 6 && words[0] == "set" && words[1] == "hook":
			value := strings.Trim(strings.Trim(strings.Join(words[5:], " "), "'"), `"`)
			if old := h.Attributes[words[3]]; words[4] == "+=" && old != "" {
				value = old + "," + value
			}
			h.Attributes[words[3]] = value
		case len(words) == 6 && words[0] == "import" && words[1] == "hook":
			end := i + 1
			for end < len(lines) && len(strings.Fields(lines[end])) == 1 {
				end++
			}
			if end == len(lines) {
				return nil, fmt.Errorf("read hook %s: its %s has no end", h.Name, words[3])
			}
			content, err := decode(lines[i+1 : end])
			if err != nil {
				return nil, fmt.Errorf("read hook %s: its %s: %w", h.Name, words[3], err)
			}
			if i = end - 1; len(content) == 0 {
				continue // nothing was imported, but PBS prints the line anyway
			}
			if words[3] == typeScript {
				h.Script = content
			} else {
				h.Config = content
			}
		}
	}
	if h.Name == "" {
		return nil, fmt.Errorf("read hook: no hook in what qmgr printed: %.60q", text)
	}
	return h, nil
}

// decode reads base64 as PBS writes it: each block of 512 bytes is a line with its own padding
// (encode_hook_content in hook.c).
func decode(lines []string) ([]byte, error) {
	var content []byte
	for _, line := range lines {
		part, err := base64.StdEncoding.DecodeString(strings.TrimSpace(line))
		if err != nil {
			return nil, err
		}
		content = append(content, part...)
	}
	return content, nil
}

// encode writes base64 as PBS reads it: line by line in a buffer of 512 bytes. No line may be empty
// (decode_hook_content in hook.c), because an empty line marks the end (dump_file in qmgr.c).
func encode(content []byte) []byte {
	const width = 57 // bytes a line, 76 characters
	var b bytes.Buffer
	for len(content) > 0 {
		n := min(width, len(content))
		b.WriteString(base64.StdEncoding.EncodeToString(content[:n]) + "\n")
		content = content[n:]
	}
	b.WriteByte('\n')
	return b.Bytes()
}
