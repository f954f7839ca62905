package pbs

import (
	"errors"
	"fmt"
	"strings"
)

// VnodeChunk is what a job got from one vnode for one chunk.
type VnodeChunk struct {
	Vnode     string            // "n1" or "n1[0]"
	Host      string            // Vnode without its index: the host, where vnodes are named after it
	Resources map[string]string // values as PBS wrote them, without quotes; never nil
}

// ParseExecVnode parses exec_vnode: (vnode:res=val:...[+vnode:res=val...])+(...). A chunk that PBS
// took from several vnodes gives one VnodeChunk for each. Values are not checked; OnHost does that.
// ParseExecVnode fails on anything that is not of that form, on a resource named twice in a part,
// and on more than 100000 parts.
func ParseExecVnode(text string) ([]VnodeChunk, error) {
	if err := checkLength("exec_vnode", text); err != nil {
		return nil, err
	}
	parts, err := split(text, '+')
	if err != nil {
		return nil, fmt.Errorf("exec_vnode %s: %w", shown(text), err)
	}
	if len(parts) > maxChunks {
		return nil, fmt.Errorf("exec_vnode %s: more than %d parts", shown(text), maxChunks)
	}
	chunks := make([]VnodeChunk, 0, len(parts))
	open := false
	for _, part := range parts {
		inner, opens := strings.CutPrefix(part, "(")
		inner, closes := strings.CutSuffix(inner, ")")
		if opens && open || closes && !open && !opens {
			return nil, fmt.Errorf("exec_vnode part %s: unbalanced parentheses", shown(part))
		}
		open = (open || opens) && !closes
		chunk, err := parseVnodeChunk(inner)
		if err != nil {
			return nil, fmt.Errorf("exec_vnode: %w", err)
		}
		chunks = append(chunks, chunk)
	}
	if open {
		return nil, fmt.Errorf("exec_vnode %s: unbalanced parentheses", shown(text))
	}
	return chunks, nil
}

func parseVnodeChunk(text string) (VnodeChunk, error) {
	parts, err := split(text, ':')
	if err != nil {
		return VnodeChunk{}, fmt.Errorf("vnode %s: %w", shown(text), err)
	}
	chunk := VnodeChunk{Vnode: parts[0], Host: parts[0], Resources: make(map[string]string, len(parts)-1)}
	if !isVnode(chunk.Vnode) {
		return VnodeChunk{}, fmt.Errorf("vnode %s: not a vnode name", shown(chunk.Vnode))
	}
	if host, index, ok := strings.Cut(chunk.Vnode, "["); ok && host != "" && isDigits(strings.TrimSuffix(index, "]")) {
		chunk.Host = host
	}
	for _, part := range parts[1:] {
		name, spelt, ok := strings.Cut(part, "=")
		if !ok || !isName(name) {
			return VnodeChunk{}, fmt.Errorf("vnode %s: %s is not a resource", shown(chunk.Vnode), shown(part))
		}
		value, err := unquote(spelt)
		if _, twice := chunk.Resources[name]; twice && err == nil {
			err = errors.New("given twice")
		}
		if err != nil {
			return VnodeChunk{}, fmt.Errorf("vnode %s: %w", shown(chunk.Vnode), resourceError(name, spelt, err))
		}
		chunk.Resources[name] = value
	}
	return chunk, nil
}

// isVnode reports whether text can be a vnode's name; PBS lets it hold nearly anything (docs of
// qmgr create node).
func isVnode(text string) bool {
	for _, c := range []byte(text) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`+:=()"',`, c) >= 0 {
			return false
		}
	}
	return text != ""
}

// Place returns exec_vnode for chunks that the hosts, at least one, take in turn: chunk i is on
// host i mod n. Every chunk is in parentheses, Count times, sizes in kb. The chunks are taken as
// ParseSelect returns them, which bounds their number.
func Place(hosts []string, chunks []Chunk) string {
	var b strings.Builder
	i := 0
	for _, chunk := range chunks {
		part := formatResources(chunk)
		for range chunk.Count {
			if i > 0 {
				b.WriteByte('+')
			}
			b.WriteString("(" + hosts[i%len(hosts)] + part + ")")
			i++
		}
	}
	return b.String()
}

func formatResources(chunk Chunk) string {
	part := ""
	for _, name := range names(chunk.Resources) {
		value := chunk.Resources[name]
		if size, _, err := parseSize(value); err == nil && definitions[name].kind == kindSize {
			value = size.KB()
		}
		part += ":" + name + "=" + quoted(value)
	}
	return part
}
