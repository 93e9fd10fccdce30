package liveness

import "github.com/stillhere/stillhere/schemas"

// Settings say when a person counts as here. What each means to the millisecond is
// in ../DESIGN.md.
type Settings = schemas.Policy

// Defaults are the settings of the design.
func Defaults() Settings { return schemas.DefaultPolicy() }
