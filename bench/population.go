package main

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/lastseen/pgstore"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/loadtest"
)

// populationKey is the identity key of this bench.
var populationKey = identity.Key{1, 2, 3}

// population measures what users who are all online cost in the detector, in Redis and in Postgres: with
// integer ids, then with names, which are UUIDs of one tenant.
func (l *lab) population(t *loadtest.T) {
	t.Part(func() { l.populate(t, "integers", identity.Users{}) })
	t.Part(func() { l.populate(t, "names", identity.Named(populationKey)) })
	t.Note(fmt.Sprintf("%d users in %d partitions. The detector, then lastseen alone in this process; Redis and Postgres are servers of their own.", t.Users, t.Partitions))
}

func (l *lab) populate(t *loadtest.T, mode string, users identity.Users) {
	rig := t.RigOf(users)
	redisOf := startRedis(t, rig)
	store := startPostgres(t, l.Postgres)
	settings := loadtest.Stay()

	heap := heapBytes()
	d := rig.Detector(settings, nil)
	d.Assigned()
	begun := time.Now()
	writePopulation(t, rig, users, t.Users)
	end := rig.End()
	t.Until(func() string { return fmt.Sprintf("%s come online: %d of %d frames", mode, d.Handled(), end) },
		func() bool { return d.Handled() >= end })
	t.Add(mode+": from the first frame to the last transition", time.Since(begun).Seconds(), "s").LessIsBetter()
	t.Add(mode+": memory of the detector", float64(heapBytes()-heap)/float64(t.Users), "B/user").LessIsBetter()
	t.Check(d.Stop())
	begun = time.Now()
	d = rig.Detector(settings, nil)
	t.Until(func() string { return "restoring" }, d.AllRun)
	// It goes on: what the first one had not committed it does again.
	t.Add(mode+": restart of the detector", time.Since(begun).Seconds(), "s").LessIsBetter()

	client := redis.NewClient(&redis.Options{Addr: rig.Redis})
	t.Cleanup(client.Close)
	empty := redisBytes(t, client)
	config := pgstore.Defaults()
	config.URL = store.url()
	t.Check(pgstore.Migrate(t.Context(), config))
	begun = time.Now()
	roles := rig.Roles("lastseen", func(c *app.Config) {
		c.Store, c.Policy = app.Store{Postgres: config.URL}, settings
		c.Lastseen.NewRedis = true
		if users.Text() {
			c.Kafka.IDs, c.Kafka.IdentityKey = string(identity.Text), hex.EncodeToString(populationKey[:])
		}
	})
	t.Until(func() string { return "storing " + mode }, func() bool { return roles.CaughtUp(t.Context()) })
	rows := 0 // the lag does not count what the sink is writing
	t.Until(func() string { return fmt.Sprintf("Postgres has %d users of %d", rows, t.Users) }, func() bool {
		var err error
		rows, err = strconv.Atoi(store.psql(config.URL, nil, "SELECT count(*) FROM user_presence"))
		t.Check(err)
		return rows == t.Users
	})
	t.Add(mode+": until Redis and Postgres have everybody", time.Since(begun).Seconds(), "s").LessIsBetter()
	t.Add(mode+": Redis ("+redisOf.what+")", (redisBytes(t, client)-empty)/float64(t.Users), "B/user").LessIsBetter()
	bytes, err := strconv.ParseFloat(store.psql(config.URL, nil, "SELECT pg_database_size(current_database())"), 64)
	t.Check(err)
	t.Add(mode+": Postgres, with indexes and one change of each", bytes/float64(t.Users), "B/user").LessIsBetter()
}

// redisBytes is the memory that a Redis uses for its data.
func redisBytes(t *loadtest.T, client *redis.Client) float64 {
	text, err := reference{client}.info(t.Context(), "memory", "used_memory")
	t.Check(err)
	bytes, err := strconv.ParseFloat(text, 64)
	t.Check(err)
	return bytes
}

// writePopulation writes the first beat of so many users.
func writePopulation(t *loadtest.T, rig *loadtest.Rig, users identity.Users, count int) {
	const atOnce = 200 // frames
	pending := make([][]schemas.Beat, t.Partitions)
	texts := make([][]string, t.Partitions)
	var frames []schemas.Outgoing
	flush := func(p int32) {
		value := schemas.AppendFrame(nil, schemas.FrameHead{}, pending[p])
		for row, text := range texts[p] {
			value = schemas.AppendNamedRow(value, row, schemas.Name{Tenant: "acme", Text: text})
		}
		frames = append(frames, schemas.Outgoing{Topic: schemas.Heartbeats, Partition: p, Value: value})
		pending[p], texts[p] = pending[p][:0], texts[p][:0]
	}
	for i := range count {
		id, text := schemas.UserID(i+1), ""
		if users.Text() {
			text = uuids(uint64(i + 1))
			id = users.ID("acme", text)
		}
		p := schemas.PartitionOf(id, t.Partitions)
		if pending[p] = append(pending[p], schemas.Beat{User: id, Device: 7, Kind: schemas.Mobile}); users.Text() {
			texts[p] = append(texts[p], text)
		}
		if len(pending[p]) == loadtest.BeatsPerFrame {
			flush(p)
		}
		if len(frames) == atOnce {
			rig.Write(frames)
			frames = frames[:0]
		}
	}
	for p := range t.Partitions {
		if len(pending[p]) > 0 {
			flush(p)
		}
	}
	rig.Write(frames)
}
