package web

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// FuzzHandler asks the server for pages, as a request stands on the wire. A viewer whom a proxy has
// named sees own jobs alone. Nothing is to be seen without the token, and by another host's name.
func FuzzHandler(f *testing.F) {
	for _, target := range []string{"/", "/finished", "/finished?user=alice&state=oom&name=job+3&skip=50",
		"/jobs/1.srv", "/jobs/7.srv", "/jobs/%2e%2e", "/finished?skip=-1", "//", "/favicon.ico"} {
		f.Add("GET "+target+" HTTP/1.1\r\nHost: localhost\r\nX-User: bob\r\n\r\n", uint8(0))
		f.Add("GET /token"+target+" HTTP/1.1\r\nHost: localhost:80\r\n\r\n", uint8(1))
		f.Add("GET "+target+" HTTP/1.0\r\n\r\n", uint8(2))
	}
	handlers := []http.Handler{
		Handler(&jobs{finished: 60}, Access{UserHeader: "X-User", All: true}),
		Handler(&jobs{finished: 60}, Access{Token: "token"}),
		Handler(&jobs{finished: 60}, Access{All: true}),
	}
	f.Fuzz(func(t *testing.T, text string, which uint8) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil {
			return
		}
		w := httptest.NewRecorder()
		handlers[int(which)%len(handlers)].ServeHTTP(w, r)
		body := w.Body.String()
		found := w.Code == http.StatusOK && body != ""
		switch int(which) % len(handlers) {
		case 0:
			names := r.Header.Values("X-User")
			seesAlices := found && strings.Contains(body, ">1.srv<")
			if found && (len(names) != 1 || names[0] == "") || seesAlices && names[0] != "alice" {
				t.Errorf("%q sees %s", names, body)
			}
		case 1:
			if found && (!strings.HasPrefix(r.URL.Path, "/token/") || !isLoopback(r.Host)) {
				t.Errorf("%s %s sees %s", r.Host, r.URL, body)
			}
		}
		if strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
			checkDocument(t, body)
		}
		if w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("headers %v", w.Header())
		}
	})
}

// checkDocument finds elements that run or fetch anything.
func checkDocument(t *testing.T, body string) {
	t.Helper()
	for z := html.NewTokenizer(strings.NewReader(body)); z.Next() != html.ErrorToken; {
		token := z.Token()
		if token.Type != html.StartTagToken && token.Type != html.SelfClosingTagToken {
			continue
		}
		if token.Data == "script" || token.Data == "iframe" || token.Data == "img" {
			t.Errorf("<%s> in %s", token.Data, body)
		}
		for _, a := range token.Attr {
			link, err := url.Parse(a.Val)
			if strings.HasPrefix(a.Key, "on") || a.Key == "href" && (err != nil || link.IsAbs() || link.Host != "") {
				t.Errorf("%s=%q in %s", a.Key, a.Val, body)
			}
		}
	}
}

// FuzzFilter reads the query of a page and writes it into the links to other pages.
func FuzzFilter(f *testing.F) {
	f.Add("user=a&name=b&state=ok&skip=50")
	f.Add("state=running&skip=99999999999")
	f.Fuzz(func(t *testing.T, text string) {
		query, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		got, err := filterOf(query)
		if err != nil {
			return
		}
		_, link, _ := strings.Cut(got.page(got.skip), "?")
		query, err = url.ParseQuery(link)
		if err != nil {
			t.Fatalf("%q: link %q: %v", text, link, err)
		}
		if again, err := filterOf(query); err != nil || again != got {
			t.Errorf("%q: %+v, its link %q: %+v, %v", text, got, link, again, err)
		}
	})
}
