package virtual

import "github.com/stillhere/stillhere/schemas"

// literalPeople are users 1 to 3, whose day is written out by hand.
func literalPeople(midnight schemas.Millis) []*person {
	ten := midnight + 10*hour
	silent := &person{user: 1, device: 7, kind: "mobile", reports: []report{{at: ten}, {at: ten + 15*second}, {at: ten + 30*second}}}
	bye := &person{user: 2, device: 7, kind: "web", reports: []report{{at: ten + 1}, {at: ten + 15*second}, {at: ten + 20*second, bye: true}, {at: ten + 20*second + 1, bye: true}}}
	// Idle from 10:00:30 on, back at 10:06, gone at 10:06:10.
	idle := &person{user: 3, device: 7, kind: "desktop", reports: []report{{at: ten}}}
	for at := ten + 15*second; at < ten+6*minute; at += 15 * second {
		idle.reports = append(idle.reports, report{at: at, idle: max(0, at-ten-30*second)})
	}
	idle.reports = append(idle.reports, report{at: ten + 6*minute}, report{at: ten + 6*minute + 10*second, bye: true})
	return []*person{silent, bye, idle}
}

// literalChanges is what must come of them.
func literalChanges(midnight schemas.Millis) map[schemas.UserID][]change {
	ten := midnight + 10*hour
	half, back := ten+30*second, ten+6*minute
	return map[schemas.UserID][]change{
		1: {
			{schemas.Offline, schemas.Online, ten, schemas.FirstBeat, ten, ten, true},
			{schemas.Online, schemas.Away, half + 45*second, schemas.Silent, half, half, false},
			{schemas.Away, schemas.Offline, half + 5*minute, schemas.Silent, half, half, false},
		},
		2: {
			{schemas.Offline, schemas.Online, ten + 1, schemas.FirstBeat, ten + 1, ten + 1, true},
			{schemas.Online, schemas.Offline, ten + 20*second, schemas.Bye, ten + 20*second, ten + 15*second, false},
		},
		3: {
			{schemas.Offline, schemas.Online, ten, schemas.FirstBeat, ten, ten, true},
			// A limit comes before a beat of the same instant.
			{schemas.Online, schemas.Away, half + 5*minute, schemas.Idle, half + 5*minute - 15*second, half, true},
			{schemas.Away, schemas.Online, back, schemas.ActiveAgain, back, back, true},
			{schemas.Online, schemas.Offline, back + 10*second, schemas.Bye, back + 10*second, back, false},
		},
	}
}
