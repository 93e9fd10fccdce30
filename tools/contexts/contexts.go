// Package contexts keeps, in a file of a person, where pipelines are and how to reach them: named sets of settings of
// the command line, with secrets among them. Servers do not read it.
package contexts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Settings are values by the names of flags, such as kafka-brokers.
type Settings map[string]string

// File is all contexts of a person.
type File struct {
	// Current is the context that commands use if none is named; empty: none.
	Current  string              `yaml:"current,omitempty"`
	Contexts map[string]Settings `yaml:"contexts"`
}

// PathVariable is the variable of the environment that names the file.
const PathVariable = "STILLHERE_CONTEXTS"

// Path is where the file is: as STILLHERE_CONTEXTS says, or contexts.yaml in the folder stillhere of the user's
// configuration.
func Path() (string, error) {
	if path := os.Getenv(PathVariable); path != "" {
		return path, nil
	}
	folder, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("looking for the folder of contexts (%s names the file): %w", PathVariable, err)
	}
	return filepath.Join(folder, "stillhere", "contexts.yaml"), nil
}

// Read reads the file. One that does not exist has no contexts; one that others can read is refused.
func Read(path string) (*File, error) {
	f := &File{Contexts: map[string]Settings{}}
	file, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, nil
	case err != nil:
		return nil, fmt.Errorf("reading contexts: %w", err)
	}
	defer func() { _ = file.Close() }() // nothing is written
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("reading contexts: %w", err)
	}
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&0o077 != 0 {
		return nil, fmt.Errorf("%s has mode %#o, so other users of this machine can reach its secrets: chmod 600 %s", path, mode, path)
	}
	decoder := yaml.NewDecoder(file)
	decoder.KnownFields(true)
	if err := decoder.Decode(f); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading contexts of %s: %w", path, err)
	}
	if f.Contexts == nil {
		f.Contexts = map[string]Settings{}
	}
	return f, nil
}

// Write replaces the file, which only its owner can read.
func (f *File) Write(path string) error {
	var text bytes.Buffer
	text.WriteString("# Contexts of the command stillhere: see stillhere context --help. Secrets may be among them.\n")
	encoder := yaml.NewEncoder(&text)
	if err := errors.Join(encoder.Encode(f), encoder.Close()); err != nil {
		return fmt.Errorf("writing contexts: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("writing contexts: %w", err)
	}
	// A temporary file has mode 0600 from its beginning.
	next, err := os.CreateTemp(filepath.Dir(path), ".contexts-*")
	if err != nil {
		return fmt.Errorf("writing contexts: %w", err)
	}
	_, err = next.Write(text.Bytes())
	if err = errors.Join(err, next.Sync(), next.Close()); err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing contexts: %w", errors.Join(err, os.Remove(next.Name())))
	}
	return nil
}

// name is what contexts may be called.
var name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CheckName refuses a name that is none.
func CheckName(text string) error {
	if !name.MatchString(text) {
		return fmt.Errorf("a context is called by up to 64 letters, digits, dots, dashes and underscores, and not %q", text)
	}
	return nil
}

// Names are the contexts, in order.
func (f *File) Names() []string { return slices.Sorted(maps.Keys(f.Contexts)) }

// Of is the context of this name.
func (f *File) Of(name string) (Settings, error) {
	if found, ok := f.Contexts[name]; ok {
		return found, nil
	}
	return nil, fmt.Errorf("there is no context %q; \"stillhere context list\" prints them", name)
}

// Remove removes the context, which is not the current one any more.
func (f *File) Remove(name string) error {
	if _, err := f.Of(name); err != nil {
		return err
	}
	if delete(f.Contexts, name); f.Current == name {
		f.Current = ""
	}
	return nil
}
