package openpbs

import "testing"

func TestResourceIsMadeOnceOnly(t *testing.T) {
	const head = "#\n# Create resources and set their properties.\n#\n"
	for list, missing := range map[string]bool{
		"": true,
		head + "Resource hpmem\n    type = size\n    flag = hm\n\n":                        true,
		head + "Resource diag_messages_2\n    type = string\n\n":                           true,
		head + "Resource hpmem\n    type = size\n\nResource diag_messages\n    type = s\n": false,
	} {
		if got := Resources(list); (len(got) > 0) != missing {
			t.Errorf("%q: %v", list, got)
		}
	}
}
