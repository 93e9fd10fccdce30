package liveness

import "github.com/stillhere/stillhere/schemas"

// Settings say when a person counts as online or away. ../DESIGN.md defines each to the
// millisecond.
type Settings = schemas.Policy

// Defaults are the default settings.
func Defaults() Settings { return schemas.DefaultPolicy() }
