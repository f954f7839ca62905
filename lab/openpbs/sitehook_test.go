//go:build openpbs

package openpbs_test

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// siteHook is a hook of the site's, beside hookhost's.
type siteHook struct {
	name   string
	remove func() // takes it away before the test ends; once is enough
}

// newSiteHook registers a hook until the test ends, and waits until the nodes have it. When the
// test ends, it waits until they no longer have it, because the hook would act on the next test's
// jobs. Each hook has a new name, because that of a deleted one is free only once all nodes have
// confirmed the deletion.
func newSiteHook(t *testing.T, name, event string, order int, script string) siteHook {
	t.Helper()
	name += strconv.FormatInt(time.Now().UnixMilli(), 36)
	file := "/run/" + name + ".py"
	write(t, nodes[0], file, script)
	remove := sync.OnceFunc(func() {
		err := run(nodes[0], "qmgr -c 'delete hook "+name+"'")
		for _, node := range nodes {
			err = errors.Join(err, until(node, "[ ! -e "+pbsHome+"/mom_priv/hooks/"+name+".PY ]"))
		}
		if err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(remove)
	qmgr(t, "create hook "+name, "set hook "+name+" event = "+event, fmt.Sprintf("set hook %s order = %d", name, order),
		"import hook "+name+" application/x-python default "+file)
	for _, node := range nodes {
		must.NoError(t, until(node, "[ -s "+pbsHome+"/mom_priv/hooks/"+name+".PY ]"))
	}
	return siteHook{name, remove}
}
