// Package reporttest reads reports in the way of the programs for which they are written. It shares
// no code with the writer.
package reporttest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// AccountingRecord is one record of PBS's accounting log as its consumers read it.
type AccountingRecord struct {
	When   time.Time
	ID     string
	Keys   []string // in the record's order
	Fields map[string]string
}

var (
	accountingHead = regexp.MustCompile(`^(\d\d/\d\d/\d{4} \d\d:\d\d:\d\d);E;([0-9][^;\s]*);(.*)$`)
	isInteger      = regexp.MustCompile(`^-?[0-9]+$`)
	isSize         = regexp.MustCompile(`^[0-9]+([kmgtp]?[bw])?$`)
	isDuration     = regexp.MustCompile(`^[0-9]{2,}:[0-5][0-9]:[0-5][0-9]$`)
)

// ReadAccounting reads a record by the rules of PBS's administrator's guide. A blank separates two
// fields. A value with blanks is in double quotes, or in single quotes if it contains double ones.
func ReadAccounting(line string) (AccountingRecord, error) {
	a := AccountingRecord{Fields: map[string]string{}}
	head := accountingHead.FindStringSubmatch(line)
	if head == nil {
		return a, fmt.Errorf("no record: %q", line)
	}
	var err error
	if a.When, err = time.Parse("01/02/2006 15:04:05", head[1]); err != nil {
		return a, err
	}
	a.ID = head[2]
	for rest := head[3]; rest != ""; {
		key, after, found := strings.Cut(rest, "=")
		if !found || key == "" || strings.ContainsAny(key, " \t\"'") {
			return a, fmt.Errorf("no field: %q", rest)
		}
		var value string
		if after != "" && (after[0] == '"' || after[0] == '\'') {
			end := strings.IndexByte(after[1:], after[0])
			if end < 0 {
				return a, fmt.Errorf("quote is not closed: %q", rest)
			}
			value, rest = after[1:end+1], after[end+2:]
			if rest != "" && rest[0] != ' ' {
				return a, fmt.Errorf("text after a quote: %q", rest)
			}
			rest = strings.TrimPrefix(rest, " ")
		} else {
			value, rest, _ = strings.Cut(after, " ")
		}
		if _, twice := a.Fields[key]; twice || value == "" {
			return a, fmt.Errorf("field %q: twice or without a value", key)
		}
		a.Keys, a.Fields[key] = append(a.Keys, key), value
	}
	return a, a.check()
}

// accountingOrder is the order in account_jobend; resources are in alphabetical order within each
// list.
var accountingOrder = strings.Fields(`user group account project accounting_id jobname queue resvname resvID ctime
	qtime etime start exec_host exec_vnode Resource_List session alt_id end Exit_status resources_used eligible_time
	run_count`)

func (a AccountingRecord) check() error {
	place := -1
	last := ""
	for _, key := range a.Keys {
		group, _, _ := strings.Cut(key, ".")
		at := slices.Index(accountingOrder, group)
		if at < place || at == place && strings.Compare(key, last) <= 0 {
			return fmt.Errorf("field %q is not in its place", key)
		}
		place, last = at, key
		rule := fieldRule(key)
		if rule != nil && !rule.MatchString(a.Fields[key]) {
			return fmt.Errorf("field %s=%s: not of its type", key, a.Fields[key])
		}
	}
	return nil
}

// fieldRule returns the pattern for a value, or nil for text.
func fieldRule(key string) *regexp.Regexp {
	switch _, resource, _ := strings.Cut(key, "."); {
	case slices.Contains(strings.Fields("ctime qtime etime start session end Exit_status run_count"), key):
		return isInteger
	case slices.Contains([]string{"ncpus", "mpiprocs", "nodect", "cpupercent", "ngpus"}, resource):
		return isInteger
	case slices.Contains([]string{"mem", "vmem", "hpmem"}, resource):
		return isSize
	case slices.Contains([]string{"cput", "walltime"}, resource):
		return isDuration
	}
	return nil
}
