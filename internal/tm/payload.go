package tm

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// payload is a command for the other end of remsh. The payload travels as one word of letters that
// mean nothing to a shell. So the command reaches the user's login shell, of whatever kind, once
// and as it was written.
type payload struct {
	Version int               `json:"v"`
	Job     string            `json:"job,omitempty"`
	Command []byte            `json:"cmd"` // a line for the user's shell; bytes, since it need not be UTF-8
	Env     map[string][]byte `json:"env,omitempty"`
}

const (
	payloadVersion = 1
	// maxWord bounds a payload as a word of a command line. The kernel takes 128 KiB
	// (MAX_ARG_STRLEN of include/uapi/linux/binfmts.h), and sshd makes one word of the whole line.
	maxWord = 96 << 10
	// maxPayload bounds what the other end reads.
	maxPayload = 8 << 20
)

// carried are the variables that go along, as ssh passes none: those that PBS gives a job, and
// those that hook mpi sets (hooks/mpi/launch.go). Launchers start trees: the second host starts the
// third. PBS_JOBCOOKIE never goes along, since it would stand in ps. Nor do the first host's
// own (PBS_NODENUM, PBS_TASKNUM, TMPDIR).
var carried = []string{
	"PBS_JOBID", "PBS_JOBNAME", "PBS_QUEUE", "PBS_ENVIRONMENT", "PBS_NODEFILE", "PBS_O_WORKDIR",
	"PBS_O_QUEUE", "PBS_ARRAY_ID", "PBS_ARRAY_INDEX", "PBS_ACCOUNT", "NCPUS", "OMP_NUM_THREADS",
	"OMPI_MCA_plm_rsh_agent", "OMPI_MCA_plm", "OMPI_MCA_orte_default_hostfile",
	"PRTE_MCA_plm_ssh_agent", "PRTE_MCA_plm",
	"HYDRA_LAUNCHER", "HYDRA_LAUNCHER_EXEC", "I_MPI_HYDRA_BOOTSTRAP", "I_MPI_HYDRA_BOOTSTRAP_EXEC",
}

// newPayload makes the payload of a command line, with variables of the caller's environment.
func newPayload(job, command string, env []string) *payload {
	p := &payload{Version: payloadVersion, Job: job, Command: []byte(command), Env: map[string][]byte{}}
	for _, entry := range env {
		if name, value, _ := strings.Cut(entry, "="); slices.Contains(carried, name) {
			p.Env[name] = []byte(value)
		}
	}
	if job != "" {
		p.Env["PBS_JOBID"] = []byte(job)
	}
	return p
}

// asWord returns the encoded payload as a word for a command line; "" if it is too long for one.
func asWord(encoded []byte) string {
	if base64.RawURLEncoding.EncodedLen(len(encoded)) > maxWord {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(encoded)
}

func fromWord(word string) ([]byte, error) {
	b, err := base64.RawURLEncoding.DecodeString(word)
	if err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	return b, nil
}

func decodePayload(b []byte) (*payload, error) {
	var v struct {
		Version int `json:"v"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	if v.Version != payloadVersion {
		const text = "the caller's hookhost speaks version %d of remsh, this one %d"
		return nil, fmt.Errorf(text, v.Version, payloadVersion)
	}
	p := new(payload)
	if err := json.Unmarshal(b, p); err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	return p, nil
}
