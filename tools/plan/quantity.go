package plan

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Quantity is a number as people write it: 500M, 1.5k, 2e6, 20_000.
type Quantity float64

var suffixes = map[string]float64{"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}

// UnmarshalText reads a quantity; the parser of the command line calls it.
func (q *Quantity) UnmarshalText(text []byte) error {
	written := strings.NewReplacer("_", "", ",", "").Replace(strings.TrimSpace(string(text)))
	number := strings.TrimRight(written, "kKMGBT")
	factor, known := suffixes[written[len(number):]]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !known || math.IsNaN(n) || math.IsInf(n, 0) || n < 0 {
		return fmt.Errorf("%q must be a number such as 20000, 500M, 1.5k or 2G", text)
	}
	*q = Quantity(n * factor)
	return nil
}

// short writes a number with three digits and a suffix.
func short(n float64) string {
	for _, s := range []struct {
		at   float64
		name string
	}{{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if n >= s.at*0.9995 {
			return digits(n/s.at) + " " + s.name
		}
	}
	return digits(n) + " "
}

// digits writes three significant digits.
func digits(n float64) string {
	switch {
	case n == math.Trunc(n) && n < 1000:
		return strconv.FormatFloat(n, 'f', 0, 64)
	case n >= 99.95:
		return strconv.FormatFloat(n, 'f', 0, 64)
	case n >= 9.995:
		return strconv.FormatFloat(n, 'f', 1, 64)
	default:
		return strconv.FormatFloat(n, 'f', 2, 64)
	}
}
