package graph

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/stillhere/stillhere/schemas"
)

// Synthetic describes a synthetic graph. Followers are users 1 to Users.
type Synthetic struct {
	Users int64
	// Mean is how many followers a user has on average, celebrities aside. Few users have many
	// followers: the number of followers of the user of rank r falls with r^-Alpha [0.8].
	Mean, Alpha float64
	// Celebrities have the given numbers of followers, whatever their rank.
	Celebrities map[schemas.UserID]int64
	Seed        uint64
}

// Validate reports everything that is wrong, joined.
func (m Synthetic) Validate() error {
	var faults []error
	if m.Users < 2 || m.Users > 1<<40 {
		faults = append(faults, fmt.Errorf("users: must be between 2 and 2^40, is %d", m.Users))
	}
	if m.Mean < 0 || m.Mean > float64(m.Users)/2 {
		faults = append(faults, fmt.Errorf("mean: must be between 0 and half of the users, is %g", m.Mean))
	}
	if m.Alpha < 0 || m.Alpha > 3 {
		faults = append(faults, fmt.Errorf("alpha: must be between 0 and 3, is %g", m.Alpha))
	}
	for user, n := range m.Celebrities {
		if n < 0 || n > m.Users-1 || !user.Valid() {
			faults = append(faults, fmt.Errorf("celebrity: user %d cannot have %d followers of %d users", user, n, m.Users))
		}
	}
	return errors.Join(faults...)
}

// Generate writes the graph as lines "user,follower" under a heading and returns how many edges it
// wrote. The same Synthetic gives the same lines on any machine.
func (m Synthetic) Generate(ctx context.Context, to io.Writer) (edges int64, err error) {
	if err := m.Validate(); err != nil {
		return 0, err
	}
	out := bufio.NewWriterSize(to, 1<<20)
	defer func() { err = errors.Join(err, out.Flush()) }()
	if _, err := out.WriteString("user_id,follower_id\n"); err != nil {
		return 0, err
	}
	write := func(user schemas.UserID, n int64) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		edges += n
		return m.write(out, user, n)
	}
	for _, user := range slices.Sorted(maps.Keys(m.Celebrities)) {
		if err := write(user, m.Celebrities[user]); err != nil {
			return edges, err
		}
	}
	// The integral of r^-alpha stands for the sum over all ranks.
	scale := m.Mean * float64(m.Users) / m.mass(float64(m.Users))
	step, carry := m.stride(0), 0.0
	for rank := int64(1); rank <= m.Users && m.Mean > 0; rank++ {
		carry += scale * (m.mass(float64(rank)) - m.mass(float64(rank-1)))
		n := min(int64(carry), m.Users-1)
		carry = min(carry-float64(n), 1)
		user := schemas.UserID((rank*step)%m.Users + 1)
		if _, is := m.Celebrities[user]; is || n == 0 {
			continue
		}
		if err := write(user, n); err != nil {
			return edges, err
		}
	}
	return edges, nil
}

// mass is the integral of x^-alpha from 0 to r, or from 1 where that diverges.
func (m Synthetic) mass(r float64) float64 {
	switch {
	case m.Alpha < 1:
		return math.Pow(r, 1-m.Alpha) / (1 - m.Alpha)
	case r < 1:
		return 0
	case m.Alpha == 1:
		return 1 + math.Log(r)
	}
	return 1 + (1-math.Pow(r, 1-m.Alpha))/(m.Alpha-1)
}

// stride returns a number that is coprime to Users, so that steps of it reach every user once.
func (m Synthetic) stride(of schemas.UserID) int64 {
	source := rand.New(rand.NewPCG(m.Seed, uint64(of)))
	limit := min(m.Users, 1<<20)
	for {
		if step := 1 + source.Int64N(limit); gcd(step, m.Users) == 1 {
			return step
		}
	}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// write writes n distinct followers of user.
func (m Synthetic) write(out *bufio.Writer, user schemas.UserID, n int64) error {
	step := m.stride(user)
	at := rand.New(rand.NewPCG(m.Seed+1, uint64(user))).Int64N(m.Users)
	var line []byte
	for n > 0 {
		at = (at + step) % m.Users
		follower := schemas.UserID(at + 1)
		if follower == user {
			continue
		}
		n--
		line = strconv.AppendInt(line[:0], int64(user), 10)
		line = strconv.AppendInt(append(line, ','), int64(follower), 10)
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}
