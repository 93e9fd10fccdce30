// Package redact takes out of what is logged and printed what a reader of logs must
// not learn: URLs of servers carry passwords in their userinfo and tokens in their
// query.
package redact

import (
	"errors"
	"net/url"
)

// unreadable stands for a URL that cannot be parsed, of which nothing can be told.
const unreadable = "(a URL that cannot be read)"

// URL is the URL in text without userinfo, query and fragment. Text that is no URL with
// a host, such as the path of a file, is returned as it is.
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

// Error is err with the URL of every *url.Error in it, as HTTP clients return them, as
// URL tells it. It returns the cause alone where the error is wrapped, so that no outer
// text repeats the URL.
func Error(err error) error {
	var of *url.Error
	if !errors.As(err, &of) {
		return err
	}
	return &url.Error{Op: of.Op, URL: URL(of.URL), Err: Error(of.Err)}
}
