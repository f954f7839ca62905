package hostapi_test

import (
	"os"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
)

// TestMain is the test, or what a test starts: a hook as a host does, or a host that is to be
// killed.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv("HOSTAPI_TEST_HOST") != "":
		shortLivedHost()
	case os.Getenv("HOSTAPI_TEST_HOOK") != "":
		hostapi.Serve(newProbe)
	default:
		status := m.Run()
		os.RemoveAll(programsDir)
		os.Exit(status)
	}
}
