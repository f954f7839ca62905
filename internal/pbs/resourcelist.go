package pbs

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Request is a job's request: the -l arguments of qsub, with the defaults that a PBS server adds.
type Request struct {
	Select []Chunk // never empty; every chunk has an ncpus
	// Resource_List: job-wide resources such as walltime, and the sums over the chunks (ncpus, mem)
	Job map[string]string
}

// ParseResourceList parses qsub's -l arguments, each a list of name=value joined by commas. The
// names are select, place, job-wide resources, or those of the old form ncpus=2,mem=64mb, which
// requests one chunk. A chunk without ncpus gets ncpus=1. Without arguments, the request is
// select=1:ncpus=1.
//
// ParseResourceList fails on a duplicate resource and on a value of the wrong type, and names the
// resource and value. Chunk resources together with select or place, nodes=, and sums that overflow
// are errors too.
func ParseResourceList(args ...string) (Request, error) {
	given, err := parseArgs(args)
	if err != nil {
		return Request{}, err
	}
	if spec, ok := given["nodes"]; ok {
		return Request{}, ResourceError("nodes", spec, errors.New("not supported: use select, as in select=1:ncpus=1"))
	}
	place, hasPlace := given["place"]
	if hasPlace {
		if err := checkPlace(place); err != nil {
			return Request{}, ResourceError("place", place, err)
		}
	}
	chunks, err := chunksOf(given, hasPlace)
	if err != nil {
		return Request{}, err
	}
	for _, chunk := range chunks {
		if _, ok := chunk.Resources["ncpus"]; !ok {
			chunk.Resources["ncpus"] = "1"
		}
	}
	job, err := sum(chunks)
	if err != nil {
		return Request{}, err
	}
	for name, value := range given {
		if !isJobWide(name) {
			job[name] = value
		}
	}
	return Request{Select: chunks, Job: job}, nil
}

// parseArgs returns every name=value of args.
func parseArgs(args []string) (map[string]string, error) {
	given := map[string]string{}
	for _, arg := range args {
		if err := checkLength("resource list", arg); err != nil {
			return nil, err
		}
		parts, err := split(arg, ',')
		if err != nil {
			return nil, fmt.Errorf("resource list %s: %w", Shown(arg), err)
		}
		for _, part := range parts {
			name, value, err := parseArg(part)
			if err != nil {
				return nil, err
			}
			if _, twice := given[name]; twice {
				return nil, ResourceError(name, value, errors.New("given twice"))
			}
			given[name] = value
		}
	}
	return given, nil
}

// parseArg is like parseResource, but leaves the quotes inside a select specification to
// ParseSelect.
func parseArg(text string) (name, value string, err error) {
	if name, spec, ok := strings.Cut(text, "="); ok && strings.EqualFold(strings.Trim(name, " "), "select") {
		spec = strings.Trim(spec, " ")
		if whole, err := unquote(spec); err == nil {
			spec = whole
		}
		return "select", spec, nil
	}
	return parseResource(text)
}

// chunksOf returns the chunks that given requests. Resources of the old form that belong to the
// chunk are deleted from given.
func chunksOf(given map[string]string, hasPlace bool) (chunks []Chunk, err error) {
	spec, hasSelect := given["select"]
	if hasSelect {
		if chunks, err = ParseSelect(spec); err != nil {
			return nil, err
		}
	} else {
		chunks = []Chunk{{Count: 1, Resources: map[string]string{}}}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !definitions[name].chunk {
			continue
		}
		if hasSelect || hasPlace {
			return nil, ResourceError(name, given[name], errors.New("cannot be used with select or place"))
		}
		chunks[0].Resources[name] = given[name]
		delete(given, name)
	}
	return chunks, nil
}

// sum returns the total request of chunks.
func sum(chunks []Chunk) (map[string]string, error) {
	totals := map[string]*total{}
	for _, chunk := range chunks {
		for _, name := range names(chunk.Resources) {
			d := definitions[name]
			if !d.sum {
				continue
			}
			if totals[name] == nil {
				totals[name] = &total{kind: d.kind}
			}
			if err := totals[name].add(chunk.Resources[name], chunk.Count); err != nil {
				return nil, ResourceError(name, chunk.Resources[name], err)
			}
		}
	}
	sums := make(map[string]string, len(totals))
	for name, t := range totals {
		sums[name] = t.String()
	}
	return sums, nil
}

// placeFields are the fields of a place specification. At most one field of each row may be given.
var placeFields = [][]string{
	{"free", "pack", "scatter", "vscatter"},
	{"excl", "exclhost", "shared"},
}

// checkPlace reports whether spec is [arrangement][:sharing][:group=resource], in any order, as PBS
// accepts it.
func checkPlace(spec string) error {
	var seen [3]bool
	for field := range strings.SplitSeq(spec, ":") {
		row := slices.IndexFunc(placeFields, func(fields []string) bool { return slices.Contains(fields, field) })
		if resource, ok := strings.CutPrefix(field, "group="); ok && isName(resource) {
			row = len(placeFields)
		}
		if row < 0 {
			return fmt.Errorf("%.64q is not a placement", field)
		}
		if seen[row] {
			return fmt.Errorf("%.64q contradicts an earlier field", field)
		}
		seen[row] = true
	}
	return nil
}
