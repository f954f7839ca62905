package openpbs

import (
	"bytes"
	"fmt"
	"strings"
)

// MaxConfig is one byte less than MoM receives in one piece and writes at once (SCRIPT_CHUNK_Z in
// libpbs.h, req_copy_hookfile in resmom/requests.c). So a shorter file is either empty or complete
// whenever it is read.
const MaxConfig = 1<<16 - 1

// NoConfig is the configuration that means none. PBS has no directive that removes a configuration,
// and does not send an empty one to the nodes (int_hook.c).
const NoConfig = "# no configuration\n"

// Configure returns the directive that makes text the hook's configuration, or none if it already
// is. PBS then sends it to every node. existing is the hook of that name. It is an error if the
// text is too long, or if the hook does not exist or is not hookhost's.
func (r Registration) Configure(existing *Hook, text []byte) ([]Command, error) {
	switch {
	case existing == nil:
		return nil, fmt.Errorf("there is no hook %s: hookhost openpbs install", r.Name)
	case len(text) > MaxConfig:
		return nil, fmt.Errorf("%d bytes: want at most %d, which pbs_mom writes at once", len(text), MaxConfig)
	}
	if _, ours := Ours(existing.Script); !ours {
		return nil, fmt.Errorf("hook %s is not hookhost's", r.Name)
	}
	if len(text) == 0 {
		text = []byte(NoConfig)
	}
	if bytes.Equal(existing.Config, text) {
		return nil, nil
	}
	return []Command{r.importing(typeConfig, text)}, nil
}

// importing returns the directive that makes content the hook's script or configuration.
func (r Registration) importing(kind string, content []byte) Command {
	return Command{Directive: fmt.Sprintf("import hook %s %s base64 -", r.Name, kind), Input: encode(content)}
}

// PrintConfig is Configure as a shell script that needs only qmgr, for a server's host without
// hookhost. version is hookhost's.
func (r Registration) PrintConfig(version string, text []byte) ([]byte, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	command, err := r.Configure(&Hook{Script: Script("")}, text)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, configHead+scriptQmgr, version, r.Name)
	fmt.Fprintf(&b, configBody, r.Name, mark, command[0].Directive, strings.TrimSpace(string(command[0].Input)))
	return b.Bytes(), nil
}

const configHead = `#!/bin/sh
# Sets the configuration, which hookhost %s has checked, of hook "%s". Run it as root, unchanged, on
# the host of the PBS server:
#
#     hookhost openpbs config FILE --print | ssh root@SERVER sh
`

const configBody = `there %[1]s || fail "there is no hook %[1]s: hookhost openpbs print"
case $(qmgr -c 'export hook %[1]s application/x-python default' | sed -n 1p) in
'%[2]s'*) ;;
*) fail "hook %[1]s is not hookhost's" ;;
esac
qmgr -c '%[3]s' <<END
%[4]s

END
)
`
