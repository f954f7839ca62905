package host

import "fmt"

// CheckProgram tells what keeps a hook's program from being run: nil when its file is there, nobody but root can change
// it, and its checksum is the registered one. The host makes the same checks each time it starts the program.
func (r *Registry) CheckProgram(h Hook) error {
	if h.Program == "" {
		return fmt.Errorf("hook %s: no program was imported", h.Name)
	}
	f, err := r.paths().openSummed(h.Program, h.SHA256)
	if err != nil {
		return fmt.Errorf("hook %s: %w", h.Name, err)
	}
	return f.Close()
}
