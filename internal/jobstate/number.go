package jobstate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/disk"
)

// NextNumber returns the next number for a job of `hookhost run`, and writes it to the file
// job-number of the state directory. The caller ensures that only one call is made at a time. A
// file without a number is replaced. Then numbers start from the time of day in seconds: the
// earlier ones are lost, and none may come twice. As the file is not fsynced, a power cut may bring
// back an earlier number.
func NextNumber(dir string) (uint64, error) {
	path := filepath.Join(dir, "job-number")
	last := uint64(0)
	b, err := os.ReadFile(path)
	switch {
	case err == nil:
		if last, err = strconv.ParseUint(strings.TrimSpace(string(b)), 10, 63); err != nil {
			last = uint64(time.Now().Unix())
		}
	case !errors.Is(err, fs.ErrNotExist):
		return 0, fmt.Errorf("next job number: %w", err)
	}
	last++
	if err := disk.ReplaceUnsynced(path, fmt.Appendln(nil, last), 0o600); err != nil {
		return 0, fmt.Errorf("next job number: %w", err)
	}
	return last, nil
}
