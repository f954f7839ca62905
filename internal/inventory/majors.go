package inventory

import "github.com/hookhost/hookhost/internal/kernfs"

// Majors of GPUs that are the same on every machine (Documentation/admin-guide/devices.txt;
// nvidiaMajor is beside them).
const (
	drmMajor   = 226 // DRM_MAJOR: AMD's and Intel's GPUs, and every display
	accelMajor = 261 // ACCEL_MAJOR: Gaudi
)

// GPUMajors returns the majors of the character devices that GPUs and accelerators are, or can be
// on this machine. The majors that the kernel gives out are known when the driver is loaded. To
// read them asks no device.
func GPUMajors(proc *kernfs.FS) ([]uint32, error) {
	majors := []uint32{nvidiaMajor, drmMajor, accelMajor}
	there, err := charMajors(proc)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"nvidia", "nvidia-frontend", "nvidia-caps", "habanalabs"} {
		if m, ok := there[name]; ok {
			majors = append(majors, m)
		}
	}
	return majors, nil
}

// IsNoGPU tells of numbers at a major of GPUs that they are no GPU's: nvidia-modeset's and
// nvidiactl's.
func IsNoGPU(major, minor uint32) bool {
	return major == nvidiaMajor && (minor == nvidiactlMinor-1 || minor == nvidiactlMinor)
}
