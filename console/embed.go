package console

import "embed"

//go:generate npm ci --silent
//go:generate npm run --silent build

// files are the pages, below the folder dist: index.html, and what it names. They are the same in every process and
// never change.
//
//go:embed all:dist
var files embed.FS
