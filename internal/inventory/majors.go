package inventory

import "github.com/hookhost/hookhost/internal/kernfs"

// Majors of GPUs that are the same on every machine (Documentation/admin-guide/devices.txt; see
// also nvidiaMajor).
const (
	drmMajor   = 226 // DRM_MAJOR: AMD's and Intel's GPUs, and all displays
	accelMajor = 261 // ACCEL_MAJOR: Gaudi
)

// GPUMajors returns the majors of character devices that are or can be GPUs and accelerators on
// this machine. Majors that the kernel assigns are known once the driver is loaded. Reading them
// does not access any device.
func GPUMajors(proc *kernfs.FS) ([]uint32, error) {
	majors := []uint32{nvidiaMajor, drmMajor, accelMajor}
	there, err := charMajors(proc)
	if err != nil {
		return nil, err
	}
	for _, v := range vendors {
		for _, name := range v.majors {
			if m, ok := there[name]; ok {
				majors = append(majors, m)
			}
		}
	}
	return majors, nil
}

// IsNoGPU reports whether numbers with a major of GPUs are not a GPU's: those of nvidia-modeset and
// nvidiactl.
func IsNoGPU(major, minor uint32) bool {
	return major == nvidiaMajor && (minor == nvidiactlMinor-1 || minor == nvidiactlMinor)
}
