package openpbs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ReadDelivered reads pbs_cgroups as PBS delivers it, below PBS_EXEC. PBS's installation copies
// these files to the server's hooks (pbs_postinstall). It returns nil if this PBS has no such hook,
// otherwise also the directory of the files.
func ReadDelivered(exec string) (*Hook, MoMHooks, error) {
	for _, lib := range []string{"lib64", "lib"} {
		dir := MoMHooks(filepath.Join(exec, lib, "python/altair/pbs_hooks")) // NAME.PY, NAME.HK, NAME.CF as in MoM's
		h, err := dir.Hook(Stock)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			h.Script, err = os.ReadFile(dir.Script(Stock))
		}
		if err == nil {
			h.Config, err = os.ReadFile(dir.Config(Stock))
		}
		if err != nil {
			return nil, "", fmt.Errorf("hook %s of PBS: %w", Stock, err)
		}
		return h, dir, nil
	}
	return nil, "", nil
}

// replaces reports whether the registration is pbs_cgroups by name, in the place of PBS's hook.
func (r Registration) replaces(existing *Hook) bool {
	return r.Name == Stock && r.Delivered != nil && existing != nil && !existing.blank()
}

// checkReplace returns an error if a hook that is not ours must not be replaced. Only pbs_cgroups
// may be, if its script and configuration are PBS's, so that Uninstall can restore them.
func (r Registration) checkReplace(existing *Hook) error {
	if !r.replaces(existing) {
		return fmt.Errorf(foreign+": qmgr -c 'delete hook %[1]s'", r.Name)
	}
	for _, part := range []struct {
		what, kind, file string
		same             bool
	}{
		{"script", typeScript, r.DeliveredIn.Script(Stock), bytes.Equal(existing.Script, r.Delivered.Script)},
		{"configuration", typeConfig, r.DeliveredIn.Config(Stock), bytes.Equal(existing.Config, r.Delivered.Config)},
	} {
		if !part.same {
			return fmt.Errorf(changedHere, Stock, part.what, part.kind, part.file)
		}
	}
	return nil
}

const foreign = "hook %[1]s exists already and is not hookhost's: choose another name (--name), or delete it"

const changedHere = "hook %[1]s has a %[2]s of this site, which would be lost. " +
	"Save it: qmgr -c 'export hook %[1]s %[3]s default' >FILE. Then give the hook PBS's: " +
	"qmgr -c 'import hook %[1]s %[3]s default %[4]s'"

// restore returns the directives that make our disabled pbs_cgroups the hook that PBS delivers.
// order, alarm, freq and fail_action stay, as they do at an installation.
func (r Registration) restore(existing *Hook, enable bool) (list []Command) {
	list = append(list, r.importing(typeConfig, r.Delivered.Config))
	if event := r.Delivered.Attributes["event"]; !sameList(existing.Attributes["event"], event) {
		list = append(list, Command{Directive: fmt.Sprintf("set hook %s event = %q", Stock, event)})
	}
	if enable { // before the script, which has the note that says so
		list = append(list, Command{Directive: "set hook " + Stock + " enabled = true"})
	}
	return append(list, r.importing(typeScript, r.Delivered.Script))
}
