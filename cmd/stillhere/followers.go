package main

import (
	"time"

	"github.com/stillhere/stillhere/fanout/expand"
)

// followerFlags are the settings of the follower fan-out.
type followerFlags struct {
	HighFollower   int           `help:"Largest number of followers that is expanded at once; for users with more, all workers share jobs of five times as many." default:"10000"`
	FanoutTo       string        `help:"Followers that receive deliveries: ${enum}. here: followers who are online or away." enum:"here,everyone" default:"here"`
	FanoutRate     float64       `help:"Maximum followers per second that a process expands in jobs; 0: no limit." default:"1000000"`
	FanoutGap      time.Duration `help:"Minimum time between two expansions of one user; followers then receive the newest change. 0: none." default:"1s"`
	MayWatch       string        `help:"Who may see a user on the live stream and over HTTP: ${enum}. followers: the user, the user's followers and administrators; this needs authentication." enum:"everyone,followers" default:"everyone"`
	MayReadHistory string        `help:"Who may read the history of a user: ${enum}. self: the user and administrators; watchers: everyone who may see the user. Without authentication everyone may." enum:"self,watchers" default:"self"`
	ShownAs        string        `help:"How a hidden user appears in reads, streams and deliveries: ${enum}. null: as hidden; offline: as a user who went offline when it hid. Must be the same for all roles and channels." enum:"null,offline" default:"null"`
	FanoutMaxAge   time.Duration `help:"Maximum age of a change that followers receive." default:"1h"`
}

func (f followerFlags) expand(of string) expand.Config {
	c := expand.Defaults()
	c.Mode = expand.Mode(of)
	c.HighFollower, c.JobFollowers, c.Everyone = f.HighFollower, 5*f.HighFollower, f.FanoutTo == "everyone"
	c.Rate, c.Gap, c.MaxAge = f.FanoutRate, f.FanoutGap, f.FanoutMaxAge
	return c
}
