package plan

import (
	"bytes"
	_ "embed" // the default files
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

//go:embed units.yaml
var defaultUnits []byte

//go:embed prices.yaml
var defaultPrices []byte

// Unit is what one thing costs, and how that is known.
type Unit struct {
	Value   float64 `yaml:"value" json:"value"`
	Unit    string  `yaml:"unit" json:"unit"`
	By      string  `yaml:"by" json:"by"`
	At      string  `yaml:"at" json:"at"`
	Note    string  `yaml:"note" json:"note,omitempty"`
	Assumed bool    `yaml:"assumed" json:"assumed,omitempty"`
	Chosen  bool    `yaml:"chosen" json:"chosen,omitempty"` // a limit that the plan sets, not a cost
}

// Units are the unit costs and the machine on which they were measured.
type Units struct {
	Machine string          `yaml:"machine" json:"machine"`
	Units   map[string]Unit `yaml:"units" json:"units"`
}

// Node is a machine that one can rent.
type Node struct {
	Name      string  `yaml:"name" json:"name"`
	Cores     float64 `yaml:"cores" json:"cores"`
	MemoryGiB float64 `yaml:"memory_gib" json:"memory_gib"`
	Hour      float64 `yaml:"hour" json:"hour"`
}

// Prices are what is paid.
type Prices struct {
	Source       string  `yaml:"source" json:"source"`
	Date         string  `yaml:"date" json:"date"`
	Currency     string  `yaml:"currency" json:"currency"`
	Node         Node    `yaml:"node" json:"node"`
	MemoryNode   Node    `yaml:"memory_node" json:"memory_node"`
	DiskMonth    float64 `yaml:"disk_gb_month" json:"disk_gb_month"`
	ZoneTransfer float64 `yaml:"zone_transfer_gb" json:"zone_transfer_gb"`
}

// ReadUnits reads unit costs; nil stands for the embedded ones. Every unit must be there, and
// positive.
func ReadUnits(text []byte) (u Units, err error) {
	if text == nil {
		text = defaultUnits
	}
	if err = strict(text, &u); err != nil {
		return u, fmt.Errorf("unit costs: %w", err)
	}
	var faults []error
	for _, name := range unitNames {
		if u.Units[name].Value <= 0 {
			faults = append(faults, fmt.Errorf("unit costs: %s: must be there with a positive value", name))
		}
	}
	for name := range u.Units {
		if !slices.Contains(unitNames, name) {
			faults = append(faults, fmt.Errorf("unit costs: %s: is not known", name))
		}
	}
	return u, errors.Join(faults...)
}

// ReadPrices reads prices; nil stands for the embedded ones.
func ReadPrices(text []byte) (p Prices, err error) {
	if text == nil {
		text = defaultPrices
	}
	if err = strict(text, &p); err != nil {
		return p, fmt.Errorf("prices: %w", err)
	}
	for field, value := range map[string]float64{
		"node.cores": p.Node.Cores, "node.memory_gib": p.Node.MemoryGiB, "node.hour": p.Node.Hour,
		"memory_node.cores": p.MemoryNode.Cores, "memory_node.memory_gib": p.MemoryNode.MemoryGiB, "memory_node.hour": p.MemoryNode.Hour,
		"disk_gb_month": p.DiskMonth,
	} {
		if value <= 0 {
			err = errors.Join(err, fmt.Errorf("prices: %s: must be positive", field))
		}
	}
	if p.ZoneTransfer < 0 {
		err = errors.Join(err, errors.New("prices: zone_transfer_gb: must not be negative"))
	}
	return p, err
}

func strict(text []byte, to any) error {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	return decoder.Decode(to)
}
