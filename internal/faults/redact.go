// Package redact removes secrets from logged and printed text: URLs of servers have passwords in
// their userinfo and tokens in their query.
package faults

import (
	"errors"
	"net/url"
)

// unreadable replaces a URL that cannot be parsed.
const unreadable = "(a URL that cannot be read)"

// URL is the URL in text without userinfo, query and fragment. It returns text that is not a URL
// with a host, such as the path of a file, unchanged.
func URL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return unreadable
	case u.Scheme == "" || u.Host == "" && u.Opaque == "":
		return text
	case u.Opaque != "":
		return u.Scheme + ":" + unreadable
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// Error redacts the URL of every *url.Error in err, as HTTP clients return them. Of a wrapped error
// it returns only the cause, because the outer text repeats the URL.
func Error(err error) error {
	var of *url.Error
	if !errors.As(err, &of) {
		return err
	}
	return &url.Error{Op: of.Op, URL: URL(of.URL), Err: Error(of.Err)}
}
