package main

import (
	"context"
	"iter"
	"strconv"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/output"
)

type graphFollowers struct {
	graphStore
	User  string `arg:"" help:"The user who is followed."`
	Limit int64  `help:"Maximum number to print; 0: all." default:"0"`
	Table string `help:"What to print: ${enum}." enum:"followers,count" default:"followers" env:"-"`
	linesFlag
}

// Run prints.
func (c *graphFollowers) Run(ctx context.Context) error {
	return c.existing(ctx, func(store *graph.Store, of naming) error {
		user, _, err := of.user("<user>", c.User)
		if err != nil {
			return err
		}
		if c.Table == "count" {
			n, err := store.Count(ctx, user)
			if err != nil {
				return err
			}
			return printCount(c.linesFlag, n)
		}
		return printLinesOr(c.linesFlag, followersOf(ctx, store, of.users, user, c.Limit), followerColumns,
			func(f follower) string { return output.Shown(f.User) })
	})
}

// follower is a row.
type follower struct {
	User string `json:"user_id"` // empty: the name is not known
}

var followerColumns = []output.Column[follower]{{Name: "user_id", Head: "USER", Value: func(f follower) any { return f.User }}}

// printCount prints how many followers there are.
func printCount(f linesFlag, n int64) error {
	type count struct {
		Followers int64 `json:"followers"`
	}
	if f.Output == output.JSON {
		return printJSON(count{n})
	}
	return printLinesOr(f, rowsOf([]count{{n}}), []output.Column[count]{
		{Name: "followers", Head: "FOLLOWERS", Value: func(c count) any { return c.Followers }},
	}, func(c count) string { return strconv.FormatInt(c.Followers, 10) })
}

// followersOf are the first followers of a user; limit 0: all. They are read by pages.
func followersOf(ctx context.Context, store *graph.Store, users identity.Users, user schemas.UserID,
	limit int64) iter.Seq2[follower, error] {
	const size = 10_000
	return func(yield func(follower, error) bool) {
		page, after := make([]schemas.UserID, 0, size), schemas.UserID(0)
		for left := limit; ; {
			want := int64(size)
			if limit > 0 {
				want = min(want, left)
			}
			var names graph.Names
			var err error
			page, err = store.Page(ctx, page[:0], user, after, graph.LastID, int(want))
			if err == nil && users.Text() {
				names, err = store.Names(ctx, page)
			}
			if err != nil {
				yield(follower{}, err)
				return
			}
			for _, id := range page {
				if !yield(follower{users.Called(id, names[id]).Text}, nil) {
					return
				}
			}
			if left -= int64(len(page)); int64(len(page)) < want || limit > 0 && left <= 0 {
				return
			}
			after = page[len(page)-1]
		}
	}
}
