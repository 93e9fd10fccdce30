//go:build synctests

package virtual

const virtualTime = true
