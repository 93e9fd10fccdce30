package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// flushBytes is how many bytes of an array are written at a time.
const flushBytes = 64 << 10

// Array writes a JSON array as its elements come, indented by two spaces. One goroutine may use it.
type Array struct {
	out    io.Writer
	buffer bytes.Buffer
	begun  bool
}

// NewArray makes an array without elements, of which nothing is written yet.
func NewArray(out io.Writer) *Array { return &Array{out: out} }

// Add appends a value.
func (a *Array) Add(value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	return a.add(text)
}

// Write appends JSON lines, each as an element. It takes complete lines alone.
func (a *Array) Write(lines []byte) (int, error) {
	written := 0
	for line := range bytes.Lines(lines) {
		if err := a.add(bytes.TrimSuffix(line, []byte("\n"))); err != nil {
			return written, err
		}
		written += len(line)
	}
	return written, nil
}

func (a *Array) add(element []byte) error {
	before := ",\n  "
	if !a.begun {
		a.begun, before = true, "[\n  "
	}
	a.buffer.WriteString(before)
	if err := json.Indent(&a.buffer, element, "  ", "  "); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	if a.buffer.Len() < flushBytes {
		return nil
	}
	return a.Flush()
}

// Flush writes the elements that were taken.
func (a *Array) Flush() error {
	if a.buffer.Len() == 0 {
		return nil
	}
	_, err := a.out.Write(a.buffer.Bytes())
	a.buffer.Reset()
	if err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

// Close ends the array. It does not close the underlying writer.
func (a *Array) Close() error {
	end := "\n]\n"
	if !a.begun {
		end = "[]\n"
	}
	a.buffer.WriteString(end)
	return a.Flush()
}
