package pbs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Chunk is a part of a select specification: Count times the same Resources, each time from one
// vnode.
type Chunk struct {
	Count     int
	Resources map[string]string // values as the user wrote them, without quotes; never nil
}

// ParseSelect parses the value of qsub's -l select= (and schedselect): chunks of the form
// [N:]res=val[:res=val...], joined by "+". Values of resources that PBS knows are checked.
// ParseSelect fails on a resource that occurs twice in a chunk, on one for the whole job
// (walltime), and on more than 100000 chunks. Errors name resource and value.
func ParseSelect(text string) ([]Chunk, error) {
	if err := checkLength("select", text); err != nil {
		return nil, err
	}
	pieces, err := split(text, '+')
	if err != nil {
		return nil, fmt.Errorf("select %s: %w", Shown(text), err)
	}
	chunks := make([]Chunk, 0, min(len(pieces), maxChunks))
	count := 0
	for _, piece := range pieces {
		chunk, err := parseChunk(piece)
		if err != nil {
			return nil, fmt.Errorf("select: %w", err)
		}
		if count += chunk.Count; count > maxChunks {
			return nil, fmt.Errorf("select %s: more than %d chunks", Shown(text), maxChunks)
		}
		chunks = append(chunks, chunk)
	}
	return chunks, nil
}

func parseChunk(text string) (Chunk, error) {
	chunk := Chunk{Count: 1, Resources: map[string]string{}}
	parts, err := split(text, ':')
	if err != nil {
		return Chunk{}, fmt.Errorf("chunk %s: %w", Shown(text), err)
	}
	if first := strings.Trim(parts[0], " "); isDigits(first) {
		n, err := strconv.Atoi(first)
		if err != nil || n > maxChunks {
			return Chunk{}, fmt.Errorf("chunk %s: more than %d chunks", Shown(text), maxChunks)
		}
		if n == 0 {
			return Chunk{}, fmt.Errorf("chunk %s: want at least 1 chunk", Shown(text))
		}
		chunk.Count, parts = n, parts[1:]
	}
	for _, part := range parts {
		name, value, err := parseResource(part)
		if err != nil {
			return Chunk{}, err
		}
		if d, known := definitions[name]; known && !d.chunk || isJobWide(name) {
			return Chunk{}, ResourceError(name, value, errors.New("not allowed in select"))
		}
		if _, twice := chunk.Resources[name]; twice {
			return Chunk{}, ResourceError(name, value, errors.New("given twice in a chunk"))
		}
		chunk.Resources[name] = value
	}
	return chunk, nil
}

// isJobWide reports whether name is one of the specifications that cannot be nested.
func isJobWide(name string) bool { return name == "select" || name == "place" || name == "nodes" }

// FormatSelect is the inverse of ParseSelect and returns a schedselect:
// "1:ncpus=2:mem=64mb+2:ncpus=1".
func FormatSelect(chunks []Chunk) string {
	var b strings.Builder
	for i, chunk := range chunks {
		if i > 0 {
			b.WriteByte('+')
		}
		b.WriteString(strconv.Itoa(chunk.Count))
		for _, name := range names(chunk.Resources) {
			b.WriteString(":" + name + "=" + quoted(chunk.Resources[name]))
		}
	}
	return b.String()
}

// Asks reports whether chunks request value of a resource. For a number or a size that is their
// total; otherwise each chunk that names the resource must request it. PBS derives Resource_List
// from select in this way (src/server/svr_jobfunc.c, set_chunk_sum).
func Asks(chunks []Chunk, name, value string) bool {
	for _, k := range []kind{kindCount, kindSize} {
		want, have := &total{kind: k}, &total{kind: k}
		if want.add(value, 1) != nil {
			continue
		}
		for _, chunk := range chunks {
			part, named := chunk.Resources[name]
			if !named {
				continue
			}
			if have.add(part, chunk.Count) != nil {
				return false
			}
		}
		return have.begun && have.n == want.n
	}
	named := false
	for _, chunk := range chunks {
		part, is := chunk.Resources[name]
		if is && part != value {
			return false
		}
		named = named || is
	}
	return named
}
