package sister

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
)

// Debt is what a host has still to be told: that a job is over.
type Debt struct {
	Host  string        `json:"-"`
	Job   string        `json:"job"`
	Run   string        `json:"run"`
	Event hostapi.Event `json:"event"` // abort, or end: then epilogue goes first
	Since time.Time     `json:"since"`
}

// Debts are kept as files, DIR/HOST/JOB@RUN, each written as a whole and on disk before it counts. A run of a job has one debt to a
// host: a later one takes the place of an earlier one. Its methods may be called at the same time, also by several processes: a `run` whose
// daemon has died adds some, and the next daemon pays them.
type Debts struct {
	dir string
	mu  sync.Mutex
}

// OpenDebts returns the debts in dir, which is made with the first one.
func OpenDebts(dir string) *Debts { return &Debts{dir: dir} }

var hostName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$`)

// path is where a debt is kept; names from outside become no path unchecked.
func (d *Debts) path(debt Debt) (string, error) {
	if !hostName.MatchString(debt.Host) {
		return "", fmt.Errorf("host %q: not a host name", debt.Host)
	}
	if err := hostapi.CheckJobID(debt.Job); err != nil {
		return "", err
	}
	if !hostapi.IsRun(debt.Run) {
		return "", fmt.Errorf("run %q: want 32 hexadecimal digits", debt.Run)
	}
	return filepath.Join(d.dir, debt.Host, debt.Job+"@"+debt.Run), nil
}

// Add keeps a debt. When it returns nil the debt outlives the machine's next crash.
func (d *Debts) Add(debt Debt) error {
	if err := d.add(debt); err != nil {
		return fmt.Errorf("keep what %s has to be told of job %s: %w", debt.Host, debt.Job, err)
	}
	return nil
}

func (d *Debts) add(debt Debt) error {
	path, err := d.path(debt)
	if err != nil {
		return err
	}
	if debt.Event != hostapi.EventAbort && debt.Event != hostapi.EventEnd {
		return fmt.Errorf("%s is not owed", debt.Event)
	}
	text, err := json.Marshal(debt)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return err
	}
	unlock, err := d.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // when it has another name by then this finds nothing
	_, err = f.Write(append(text, '\n'))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return errors.Join(syncDir(dir), syncDir(d.dir), syncDir(filepath.Dir(d.dir)))
}

// lock keeps every other change of the debts waiting, of this process and of others. The folder has to be there.
func (d *Debts) lock() (unlock func(), err error) {
	d.mu.Lock()
	f, err := os.Open(d.dir)
	if err != nil {
		d.mu.Unlock()
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		d.mu.Unlock()
		return nil, errors.Join(fmt.Errorf("lock %s: %w", d.dir, err), f.Close())
	}
	return func() { f.Close(); d.mu.Unlock() }, nil
}

// syncDir makes names in a directory durable.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// List returns the debts, by host and job. A file that is none of ours is passed over; one that cannot be read is an error, beside the
// others.
func (d *Debts) List() ([]Debt, error) {
	hosts, err := os.ReadDir(d.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	errs := []error{err}
	var debts []Debt
	for _, host := range hosts {
		if !host.IsDir() || !hostName.MatchString(host.Name()) {
			continue
		}
		files, err := os.ReadDir(filepath.Join(d.dir, host.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // paid meanwhile
		}
		errs = append(errs, err)
		for _, f := range files {
			job, run, ok := strings.Cut(f.Name(), "@")
			if !ok || hostapi.CheckJobID(job) != nil || !hostapi.IsRun(run) {
				continue
			}
			debt, err := d.read(Debt{Host: host.Name(), Job: job, Run: run})
			switch {
			case errors.Is(err, fs.ErrNotExist):
				continue
			case err != nil:
				errs = append(errs, err)
				continue
			}
			debts = append(debts, debt)
		}
	}
	return debts, errors.Join(errs...)
}

// read returns the debt of that host, job and run. A damaged file still says who is owed what of which run: its end.
func (d *Debts) read(of Debt) (Debt, error) {
	path, err := d.path(of)
	if err != nil {
		return Debt{}, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return Debt{}, err
	}
	debt := Debt{Host: of.Host}
	if json.Unmarshal(text, &debt) != nil || debt.Job != of.Job || debt.Run != of.Run || debt.Event != hostapi.EventAbort {
		since := debt.Since
		debt = of
		debt.Event, debt.Since = hostapi.EventEnd, since
	}
	return debt, nil
}

// Paid forgets a debt, unless another one has taken its place meanwhile. Idempotent.
func (d *Debts) Paid(debt Debt) error {
	path, err := d.path(debt)
	if err != nil {
		return err
	}
	unlock, err := d.lock()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	there, err := d.read(debt)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if there.Event != debt.Event || !there.Since.Equal(debt.Since) {
		return nil
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	os.Remove(filepath.Dir(path)) // where it was the last one
	return nil
}
