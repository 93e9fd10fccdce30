// Package console holds the web console: pages that show and change presence through the HTTP API.
//
// The sources are TypeScript in src. The pages in dist are built from them by npm (go generate) and committed, so that
// a build of the program needs no Node; npm run check compares both. The pages use relative URLs only: they work below any
// path. Everything together is below 60 kB compressed.
package console

import "embed"

//go:generate npm ci --silent
//go:generate npm run --silent build

// Files are the pages, below the folder dist: index.html, and what it names. They are the same in every process and
// never change.
//
//go:embed all:dist
var Files embed.FS
