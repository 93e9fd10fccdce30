// Package plan computes what a deployment needs and costs from unit costs that benches measure.
//
//	Workload + Units + Prices ─▶ Compute ─▶ Plan: lines with their formulas ─▶ Text │ JSON
//
// Compute is a pure function without a clock. A unit cost is the processor time, memory or bytes of
// one thing; cores that it leads to are divided by the share of a core that may be in use.
package plan

// Line is one figure of a plan.
type Line struct {
	Part    string  `json:"part"`
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	Formula string  `json:"formula"`
}

// Plan is what is needed and what it costs.
type Plan struct {
	Workload Workload `json:"workload"`
	Lines    []Line   `json:"lines"`
	Units    Units    `json:"units"`
	Prices   Prices   `json:"prices"`
}

// Compute plans. w must be valid.
func Compute(w Workload, units Units, prices Prices) *Plan {
	s := &sheet{plan: &Plan{Workload: w, Units: units, Prices: prices}}
	s.load()
	s.ingest()
	s.detector()
	s.kafka()
	s.redis()
	s.postgres()
	s.others()
	s.money()
	return s.plan
}
