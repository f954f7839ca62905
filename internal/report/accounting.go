package report

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// WriteAccounting writes the report as PBS's accounting record of a job's end. The fields, their
// order and their quotes are those of acct_job and account_jobend (src/server/accounting.c). An
// unknown field is omitted. A job that has not ended, or was not started, has no record. For a job
// on several hosts, only the mother superior has a record, so that no job counts twice.
func (r *Report) WriteAccounting(w io.Writer) error {
	if r.End == nil || r.NotStarted || r.PBSJob != nil && !r.PBSJob.MotherSuperior {
		return nil
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s;E;%s;", r.End.Format("01/02/2006 15:04:05"), accountingWord(r.Job))
	sep := ""
	for _, f := range r.accountingFields() {
		if f.value != "" {
			b.WriteString(sep + f.name + "=" + f.value)
			sep = " "
		}
	}
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}

type accountingField struct{ name, value string }

// accountingFields returns the fields in PBS's order; those without a value are unknown.
func (r *Report) accountingFields() []accountingField {
	fields := []accountingField{{"user", accountingValue(r.Owner)}}
	add := func(name, value string) { fields = append(fields, accountingField{name, value}) }
	job := r.PBSJob
	if job != nil {
		if job.Account != "" { // always in quotes
			add("account", `"`+strings.ReplaceAll(printable(job.Account), `"`, `\x22`)+`"`)
		}
		add("project", accountingValue(job.Project))
	}
	add("jobname", accountingValue(r.Name))
	if job != nil {
		add("queue", accountingValue(job.Queue))
	}
	if r.Start != nil {
		add("start", strconv.FormatInt(r.Start.Unix(), 10))
	}
	if job != nil {
		add("exec_host", accountingValue(execHost(job.ExecHost2)))
		add("exec_vnode", accountingValue(job.ExecVnode))
		for _, name := range slices.Sorted(maps.Keys(job.ResourceList)) {
			add("Resource_List."+accountingWord(name), accountingValue(job.ResourceList[name]))
		}
		if job.SessionID > 0 {
			add("session", strconv.Itoa(job.SessionID))
		}
	}
	add("end", strconv.FormatInt(r.End.Unix(), 10))
	if r.ExitStatus != nil {
		add("Exit_status", strconv.Itoa(*r.ExitStatus))
	}
	for _, name := range slices.Sorted(maps.Keys(r.ResourcesUsed)) {
		add("resources_used."+accountingWord(name), accountingValue(r.ResourcesUsed[name]))
	}
	if job != nil && job.RunCount > 0 {
		add("run_count", strconv.Itoa(job.RunCount))
	}
	return fields
}

// execHost returns exec_host of exec_host2: "n1/0*2+n2/1" of "n1.cluster:15002/0*2+n2:15002/1".
func execHost(execHost2 string) string {
	if execHost2 == "" {
		return ""
	}
	parts := strings.Split(execHost2, "+")
	for i, part := range parts {
		host, slot, _ := strings.Cut(part, "/")
		host, _, _ = strings.Cut(host, ":")
		host, _, _ = strings.Cut(host, ".")
		parts[i] = host + "/" + slot
	}
	return strings.Join(parts, "+")
}

// accountingValue quotes as PBS does: values with blanks are in double quotes, or in single quotes
// if they contain double ones. Names in PBS begin with no quote and contain no line feeds. Other
// values are changed, because they must neither end their field nor begin another record.
func accountingValue(value string) string {
	value = printable(value)
	if !strings.Contains(value, " ") && !strings.HasPrefix(value, `"`) && !strings.HasPrefix(value, "'") {
		return value
	}
	if strings.Contains(value, `"`) {
		return "'" + strings.ReplaceAll(value, "'", `\x27`) + "'"
	}
	return `"` + value + `"`
}

// accountingWord returns a name for a place where quotes are not allowed.
func accountingWord(name string) string {
	return strings.NewReplacer(" ", `\x20`, "=", `\x3d`, ";", `\x3b`, `"`, `\x22`, "'", `\x27`).Replace(printable(name))
}
