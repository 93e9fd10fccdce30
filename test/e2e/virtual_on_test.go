//go:build synctests

package e2e

const virtualTime = true
