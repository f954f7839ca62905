package plugin

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hookhost/hookhost/internal/disk"
)

// The content types of import, after qmgr's.
const (
	ContentProgram = "application/x-executable"
	ContentConfig  = "application/x-config"
)

const (
	maxConfig  = 1 << 20
	maxProgram = 1 << 30
)

// Import copies a hook's program or configuration and registers the copy, a program with its
// checksum. The copy is named after its content. So a host that starts the hook meanwhile finds
// either the old pair or the new one.
func (r *Registry) Import(name, contentType string, content io.Reader) error {
	if _, ok := r.builtIn(name); ok {
		return fmt.Errorf("hook %s: it comes with hookhost: its program and configuration are hookhost's own", name)
	}
	if _, err := r.Get(name); err != nil {
		return err
	}
	tmp, sum, err := r.receive(contentType, content)
	if err != nil {
		return fmt.Errorf("hook %s: import %s: %w", name, contentType, err)
	}
	defer os.Remove(tmp)
	return r.change(name, func(h *Hook) error {
		path := filepath.Join(r.ProgramDir, name+"."+sum[:12])
		if contentType == ContentConfig {
			path += ".config"
			h.Config = path
		} else {
			h.Program, h.SHA256 = path, sum
		}
		return disk.Rename(tmp, path)
	})
}

// receive writes content to a new file in ProgramDir (disk.Write) and returns its path and
// checksum.
func (r *Registry) receive(contentType string, content io.Reader) (path, sum string, err error) {
	limit, mode := int64(maxConfig), os.FileMode(0o600)
	switch contentType {
	case ContentConfig:
	case ContentProgram:
		limit, mode = maxProgram, 0o755
		head := make([]byte, 4)
		n, _ := io.ReadFull(content, head)
		head = head[:n]
		if !bytes.HasPrefix(head, []byte("\x7fELF")) && !bytes.HasPrefix(head, []byte("#!")) {
			return "", "", errors.New("not a program: it starts neither as an ELF file nor with #! and an interpreter")
		}
		content = io.MultiReader(bytes.NewReader(head), content)
	default:
		return "", "", unknownContent(contentType)
	}
	if err := os.MkdirAll(r.ProgramDir, 0o755); err != nil {
		return "", "", err
	}
	h := sha256.New()
	bounded := &io.LimitedReader{R: content, N: limit + 1}
	path, err = disk.Write(r.ProgramDir, io.TeeReader(bounded, h), mode)
	if err == nil && bounded.N == 0 {
		os.Remove(path)
		err = fmt.Errorf("more than %d bytes", limit)
	}
	if err != nil {
		return "", "", err
	}
	return path, hex.EncodeToString(h.Sum(nil)), nil
}

func unknownContent(contentType string) error {
	return fmt.Errorf("content type %q: want %s or %s", contentType, ContentProgram, ContentConfig)
}

// discard removes a copy that Import made. Files elsewhere, which were registered by hand, stay.
func (r *Registry) discard(path string) error {
	if path == "" || filepath.Dir(path) != filepath.Clean(r.ProgramDir) {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
