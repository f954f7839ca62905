package pbs

import (
	"errors"
	"fmt"
	"strings"
)

// VnodeChunk is a job's share of one vnode for one chunk.
type VnodeChunk struct {
	Vnode     string            // "n1" or "n1[0]"; a site may use any other name
	Host      string            // as exec_host2 names it; without exec_host2, Vnode without its index
	Resources map[string]string // values as PBS wrote them, without quotes; never nil
	Chunk     int               // index of the job's chunk, from 0; one chunk may use several vnodes
	MoM       string            // HOST:PORT of the vnode's pbs_mom; "" without exec_host2
}

// ParseExecVnode parses exec_vnode: (vnode:res=val:...[+vnode:res=val...])+(...). A chunk on
// several vnodes results in one VnodeChunk for each. Values are not checked; Share does that.
// ParseExecVnode fails on text of any other form, on a resource that occurs twice in a part, and on
// more than 100000 parts.
func ParseExecVnode(text string) ([]VnodeChunk, error) {
	if err := checkLength("exec_vnode", text); err != nil {
		return nil, err
	}
	parts, err := split(text, '+')
	if err != nil {
		return nil, fmt.Errorf("exec_vnode %s: %w", Shown(text), err)
	}
	if len(parts) > maxChunks {
		return nil, fmt.Errorf("exec_vnode %s: more than %d parts", Shown(text), maxChunks)
	}
	chunks := make([]VnodeChunk, 0, len(parts))
	number, open := 0, false
	for _, part := range parts {
		inner, opens := strings.CutPrefix(part, "(")
		inner, closes := strings.CutSuffix(inner, ")")
		if opens && open || closes && !open && !opens {
			return nil, fmt.Errorf("exec_vnode part %s: unbalanced parentheses", Shown(part))
		}
		open = (open || opens) && !closes
		chunk, err := parseVnodeChunk(inner)
		if err != nil {
			return nil, fmt.Errorf("exec_vnode: %w", err)
		}
		chunk.Chunk = number
		chunks = append(chunks, chunk)
		if !open {
			number++
		}
	}
	if open {
		return nil, fmt.Errorf("exec_vnode %s: unbalanced parentheses", Shown(text))
	}
	return chunks, nil
}

func parseVnodeChunk(text string) (VnodeChunk, error) {
	parts, err := split(text, ':')
	if err != nil {
		return VnodeChunk{}, fmt.Errorf("vnode %s: %w", Shown(text), err)
	}
	chunk := VnodeChunk{Vnode: parts[0], Host: hostOf(parts[0]), Resources: make(map[string]string, len(parts)-1)}
	if !isVnode(chunk.Vnode) {
		return VnodeChunk{}, fmt.Errorf("vnode %s: not a vnode name", Shown(chunk.Vnode))
	}
	for _, part := range parts[1:] {
		name, spelt, ok := strings.Cut(part, "=")
		if !ok || !isName(name) {
			return VnodeChunk{}, fmt.Errorf("vnode %s: %s is not a resource", Shown(chunk.Vnode), Shown(part))
		}
		value, err := unquote(spelt)
		if _, twice := chunk.Resources[name]; twice && err == nil {
			err = errors.New("given twice")
		}
		if err != nil {
			return VnodeChunk{}, fmt.Errorf("vnode %s: %w", Shown(chunk.Vnode), ResourceError(name, spelt, err))
		}
		chunk.Resources[name] = value
	}
	return chunk, nil
}

// hostOf returns a vnode's name without its index. That is the host if vnodes are named after it.
func hostOf(vnode string) string {
	if host, index, ok := strings.Cut(vnode, "["); ok && host != "" && isDigits(strings.TrimSuffix(index, "]")) {
		return host
	}
	return vnode
}

// JobChunks is ParseExecVnode with the host of each chunk from exec_host2. exec_host2 has one part
// per chunk, and all vnodes of a chunk are on one host (openpbs src/resmom/start_exec.c,
// job_nodes_inner). An exec_host2 of another form is ignored.
func JobChunks(execVnode, execHost2 string) ([]VnodeChunk, error) {
	chunks, err := ParseExecVnode(execVnode)
	if err != nil || execHost2 == "" {
		return chunks, err
	}
	moms, err := execMoMs(execHost2)
	if err != nil || len(moms) != chunks[len(chunks)-1].Chunk+1 {
		return chunks, nil
	}
	for i := range chunks {
		c := &chunks[i]
		c.MoM = moms[c.Chunk]
		c.Host, _, _ = strings.Cut(c.MoM, ":")
	}
	return chunks, nil
}

// isVnode reports whether text can be a vnode's name. PBS allows nearly anything (docs of qmgr
// create node).
func isVnode(text string) bool {
	for _, c := range []byte(text) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`+:=()"',`, c) >= 0 {
			return false
		}
	}
	return text != ""
}

// Place returns exec_vnode for chunks that are all on one host. Every chunk is in parentheses,
// Count times, sizes in kb. The chunks come from ParseSelect, which limits their number.
func Place(host string, chunks []Chunk) string {
	var b strings.Builder
	i := 0
	for _, chunk := range chunks {
		part := formatResources(chunk)
		for range chunk.Count {
			if i > 0 {
				b.WriteByte('+')
			}
			b.WriteString("(" + host + part + ")")
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
