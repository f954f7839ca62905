package openpbs

import "testing"

func TestResourcesAreMadeOnceOnly(t *testing.T) {
	const head = "#\n# Create resources and set their properties.\n#\n"
	const diag, used = "Resource diag_messages\n    type = s\n\n", "Resource host_usage\n    type = string\n\n"
	const state = "Resource hookhost\n    type = string\n    flag = h\n\n"
	for list, missing := range map[string]int{
		"": 3,
		head + "Resource hpmem\n    type = size\n    flag = hm\n\n": 3,
		head + "Resource diag_messages_2\n    type = string\n\n":    3,
		head + "Resource hpmem\n    type = size\n\n" + diag:         2,
		head + diag + state + used:                                  0,
	} {
		if got := Default().MakeResources(ParseResources(list)); len(got) != missing {
			t.Errorf("%q: %v", list, got)
		}
	}
}

func TestContainerResourceIsMadeOnRequest(t *testing.T) {
	r := Default()
	r.Container = true
	for list, want := range map[string]string{
		"Resource diag_messages\n    type = string\n\n": "create resource container type=string,flag=m",
		"Resource container\n    type = string\n\n":     "create resource diag_messages type = string",
	} {
		list += "Resource hookhost\n    type = string\n\nResource host_usage\n    type = string\n\n"
		if got := r.MakeResources(ParseResources(list)); len(got) != 1 || got[0].Directive != want {
			t.Errorf("%q: %v, want %s", list, got, want)
		}
	}
}

func TestResourcesAreParsed(t *testing.T) {
	got := ParseResources("#\n# Create resources and set their properties.\n#\nResource a\n    type = string_array\n" +
		"    flag = h\n\nResource cgswap\n    type = size\n    flag = hn\n\n")
	if len(got) != 2 || *got["cgswap"] != (Resource{"size", "hn"}) || got["a"].Type != "string_array" {
		t.Errorf("%+v", got)
	}
	if got := ParseResources(""); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}
