package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/pbscgroups"
	"github.com/hookhost/hookhost/internal/settings"
)

const configImportHelp = `Convert FILE, the configuration of OpenPBS's hook pbs_cgroups (JSON), to a
hookhost.toml. "-" is standard input. This command prints the configuration in
force:

  qmgr -c "export hook pbs_cgroups application/x-config default"

The result goes to standard output. A table, which shows what became of each
key, goes to standard error. With --output, the result goes to that file and
the table to standard output. The file must not exist yet. A key is one of:

  ours         converted to a setting of hookhost; the remark says what differs
  not needed   nothing is lost without it
  refused      a site may rely on it, but hookhost does not support it
  unknown      the stock hook does not know it either

The table also has keys that FILE lacks, if the stock hook's default differs
from hookhost's. They are written to the result, so that nothing changes
silently.

Exit status: 0; 1 if a key was refused, unless --force is given; 2 if FILE is
not a configuration. Even if a key was refused, the result is written, with the
key as a comment.`

func (c *cli) configImportCommand() *cobra.Command {
	var output string
	var asJSON, force bool
	cmd := &cobra.Command{
		Use: "import FILE", Args: nArgs(1, 1),
		Short: "Convert a configuration of pbs_cgroups to one of hookhost", Long: configImportHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := readInput(cmd.InOrStdin(), args[0])
			var got *pbscgroups.Import
			if err == nil {
				got, err = pbscgroups.Read(text)
			}
			if err != nil {
				return misuse(fmt.Errorf("config import %s: %w", args[0], err))
			}
			told := cmd.ErrOrStderr()
			if output != "" {
				told = cmd.OutOrStdout()
				if err := writeNew(output, got.TOML); err != nil {
					return fmt.Errorf("config import: %w", err)
				}
			} else if _, err := cmd.OutOrStdout().Write(got.TOML); err != nil {
				return err
			}
			if err := writeImport(told, got, asJSON); err != nil {
				return err
			}
			if !asJSON {
				if err := writeImportVntype(told, c.Config, got); err != nil {
					return err
				}
			}
			if n := got.Refused(); n > 0 && !force {
				return fmt.Errorf("config import %s: refused: %d of %d keys: see the table", args[0], n, len(got.Keys))
			}
			return nil
		},
	}
	const usage = "write the result to the new file `FILE`, and the table to standard output"
	cmd.Flags().StringVar(&output, "output", "", usage)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the table as JSON")
	cmd.Flags().BoolVar(&force, "force", false, "exit with 0 even if keys were refused")
	return cmd
}

// writeNew writes a new file, or to something that is not a regular file, such as /dev/null.
func writeNew(path string, content []byte) error {
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		flags = os.O_WRONLY
	}
	f, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// maxImport is much larger than any configuration.
const maxImport = 4 << 20

func readInput(stdin io.Reader, name string) ([]byte, error) {
	in, err := openInput(stdin, name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, maxImport+1))
	if err == nil && len(text) > maxImport {
		err = fmt.Errorf("more than %d bytes", maxImport)
	}
	return text, err
}

// writeImport writes the result for each key.
func writeImport(w io.Writer, got *pbscgroups.Import, asJSON bool) error {
	var b bytes.Buffer
	if asJSON {
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(got.Keys); err != nil {
			return err
		}
		_, err := b.WriteTo(w)
		return err
	}
	t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "LINE\tKEY\tVALUE\tBECAME\tOURS\tREMARK")
	for _, k := range got.Keys {
		line := "default"
		if k.Line > 0 {
			line = fmt.Sprint(k.Line)
		}
		ours := cut(strings.Join(k.Ours, ", "))
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", line, k.Key, cut(k.Value), k.Became, ours, k.Why)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) { // no spaces at the end of a line without a remark
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// writeImportVntype explains where the vntype in the result's conditions comes from, and shows this
// host's.
func writeImportVntype(w io.Writer, path string, got *pbscgroups.Import) error {
	result, err := config.Parse(got.TOML, config.Here{})
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(result.Conditions(), config.Condition.OnVntype) {
		return nil
	}
	pbs := openPBSOf(path)
	v, err := settings.ReadVntype(&pbs)
	if err != nil {
		return err
	}
	const says = "\nConditions on vntype use the file mom_priv/vntype of each node's pbs_mom. This host's: %s.\n"
	_, err = fmt.Fprintf(w, says, v)
	return err
}

// cut shortens a value to fit into the table; --json has the full value.
func cut(text string) string {
	const most = 60
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-3]) + "..."
	}
	return text
}
