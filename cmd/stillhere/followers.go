package main

import (
	"time"

	"github.com/stillhere/stillhere/fanout/expand"
)

// followerFlags say how followers are told.
type followerFlags struct {
	HighFollower       int           `help:"Up to how many followers a user's are told in place; of users with more, jobs are made that all workers share." default:"10000" group:"Followers:"`
	FanoutJobFollowers int           `help:"How many followers a job has." default:"50000" group:"Followers:"`
	FanoutTo           string        `help:"Which followers are told: those who are ${enum}." enum:"here,everyone" default:"here" group:"Followers:"`
	FanoutRate         float64       `help:"How many followers of users with many a process looks at per second; 0: as many as it can." default:"1000000" group:"Followers:"`
	FanoutGap          time.Duration `help:"The least time between two expansions of one user; of what changes meanwhile followers are told the newest. 0: none." default:"1s" group:"Followers:"`
	FanoutParallel     int           `help:"How many jobs a process works on at the same time." default:"2" group:"Followers:"`
	MayWatch           string        `help:"Who may see a user, on the live stream and by HTTP: ${enum}; followers: those who follow it, by the graph, the user and administrators. Needs to know who asks, by tokens." enum:"everyone,followers" default:"everyone" group:"Followers:"`
	MayReadHistory     string        `help:"Who may read the history of a user: ${enum}; self: the user and administrators; watchers: whoever may see the user. Without authentication nobody is told apart and everybody may." enum:"self,watchers" default:"self" group:"Followers:"`
	ShownAs            string        `help:"What others see of a user who hides: ${enum}; null: that it hides; offline: a user who went offline when it hid, by reads, stream and deliveries alike. The same for all roles and channels." enum:"null,offline" default:"null" group:"Followers:"`
	FanoutMaxAge       time.Duration `help:"Older changes are not told any more." default:"1h" group:"Followers:"`
}

func (f followerFlags) expand(of string) expand.Config {
	c := expand.Defaults()
	c.Mode = expand.Mode(of)
	c.HighFollower, c.JobFollowers, c.Everyone = f.HighFollower, f.FanoutJobFollowers, f.FanoutTo == "everyone"
	c.Rate, c.Gap, c.Parallel, c.MaxAge = f.FanoutRate, f.FanoutGap, f.FanoutParallel, f.FanoutMaxAge
	return c
}
