package history

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// Shrink drops and simplifies parts of h as long as still(h) holds.
func Shrink(h *History, still func(*History) bool) *History {
	for before := -1; before != h.size(); {
		before = h.size()
		h = dropRecords(h, still)
		h = simplify(h, still)
	}
	return h
}

// size decreases with every change that Shrink makes.
func (h *History) size() int {
	size := len(h.Records)
	for i := range h.Records {
		size += h.Records[i].size()
	}
	return size
}

func (r *Record) size() int {
	size := len(r.Rows)
	if r.Gateway != "" {
		size++
	}
	if r.Sequence != 0 {
		size++
	}
	if r.Name != nil {
		size++
	}
	if o := r.Override; o != nil {
		for _, is := range []bool{o.State != 0, o.State == schemas.Invisible, o.Until != 0, o.Note != "", o.Forward, o.LastSeen > schemas.SeenExactly,
			len(o.Deny)+len(o.Allow) > 1} {
			if is {
				size++
			}
		}
	}
	for _, is := range []bool{r.Begins, r.Ends, r.Leased, r.LeaseEnded != 0} {
		if is {
			size++
		}
	}
	for _, row := range r.Rows {
		if row.Age != 0 {
			size++
		}
		if row.Idle != 0 {
			size++
		}
		if row.Name != nil {
			size++
		}
		if row.Connection != 0 {
			size++
		}
		if row.Lost {
			size++
		}
	}
	return size
}

// dropRecords drops runs of records, long ones first. Their time is dropped too, or added to the
// next record.
func dropRecords(h *History, still func(*History) bool) *History {
	for run := len(h.Records); run > 0; run /= 2 {
		for at := 0; at+run <= len(h.Records); {
			if shorter := h.without(at, run, false); still(shorter) {
				h = shorter
			} else if shorter := h.without(at, run, true); still(shorter) {
				h = shorter
			} else {
				at += run
			}
		}
	}
	return h
}

func (h *History) without(at, run int, keepTime bool) *History {
	shorter := *h
	shorter.Records = slices.Delete(slices.Clone(h.Records), at, at+run)
	if keepTime && at < len(shorter.Records) {
		for _, r := range h.Records[at : at+run] {
			shorter.Records[at].After += r.After
		}
	}
	return &shorter
}

// simplify drops rows, ages, idleness, names, connections, replacements, leases, gateways, sequences, and parts of overrides.
func simplify(h *History, still func(*History) bool) *History {
	try := func(i int, change func(*Record)) {
		simpler := *h
		simpler.Records = slices.Clone(h.Records)
		simpler.Records[i].Rows = slices.Clone(h.Records[i].Rows)
		change(&simpler.Records[i])
		if simpler.Records[i].size() < h.Records[i].size() && still(&simpler) {
			h = &simpler
		}
	}
	for i := range h.Records {
		for row := len(h.Records[i].Rows) - 1; row >= 0; row-- {
			try(i, func(r *Record) { r.Rows = slices.Delete(r.Rows, row, row+1) })
		}
		for row := range h.Records[i].Rows {
			try(i, func(r *Record) { r.Rows[row].Age = 0 })
			try(i, func(r *Record) { r.Rows[row].Idle = 0 })
			try(i, func(r *Record) { r.Rows[row].Name = nil })
			try(i, func(r *Record) { r.Rows[row].Lost = false })
			try(i, func(r *Record) { r.Rows[row].Connection = 0 })
		}
		try(i, func(r *Record) { r.Sequence = 0 })
		try(i, func(r *Record) { r.Name = nil })
		if r := &h.Records[i]; r.Override != nil {
			for _, change := range []func(*Override){
				func(o *Override) { *o = Override{User: o.User} }, func(o *Override) { o.State = schemas.DoNotDisturb },
				func(o *Override) { o.Until = 0 }, func(o *Override) { o.Note = "" }, func(o *Override) { o.Forward = false },
				func(o *Override) { o.Deny, o.Allow = o.Deny[:min(1, len(o.Deny))], nil },
			} {
				try(i, func(r *Record) { o := *r.Override; change(&o); r.Override = &o })
			}
		}
		try(i, func(r *Record) { r.Begins = false })
		try(i, func(r *Record) { r.Ends = false })
		try(i, func(r *Record) { r.Leased, r.LeaseEnded = false, 0 })
		try(i, func(r *Record) {
			if !r.Draining {
				r.Gateway, r.Epoch, r.Sequence, r.Begins, r.Ends = "", 0, 0, false, false
				r.Leased, r.LeaseEnded = false, 0
				for row := range r.Rows {
					r.Rows[row].Connection, r.Rows[row].Lost = 0, false
				}
			}
		})
	}
	return h
}
