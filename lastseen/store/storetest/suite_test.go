package storetest

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/importer"
	"github.com/stillhere/stillhere/lastseen/pgstore"
	"github.com/stillhere/stillhere/lastseen/replay"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Store is what the suite tests.
type Store interface {
	store.Writer
	store.Reader
	store.Namer
	store.Tenants
	store.TenantLog
	replay.Archive
	importer.Importer
	Maintain(ctx context.Context, now time.Time) error
	ErasureOf(ctx context.Context, user schemas.UserID) (store.Erasure, error)
}

const day = schemas.Millis(24 * 60 * 60 * 1000)

// forget drops what happened before the day of an instant; the retention is the default.
func forget(t *testing.T, s Store, before schemas.Millis) {
	t.Helper()
	must.Do(t, s.Maintain(t.Context(), before.Time().Add(pgstore.Defaults().AuditRetention)))
}

func TestStoresKeepTheContract(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]func(*testing.T, Store){
		"a batch writes log, users and next offset together":                    batchWritesAllThree,
		"a batch without changes still moves the next offset":                   emptyBatchMovesOffset,
		"a partition never written has no next offset":                          unknownPartition,
		"a batch that expects another offset is fenced and writes nothing":      fencedWritesNothing,
		"a batch given again is fenced":                                         againIsFenced,
		"of two owners with the same batch exactly one writes":                  twoOwners,
		"the topic of the next offset is stored with it":                        topicIsKept,
		"a position without a topic gets the one of the next write":             topicIsFilledIn,
		"a writer of a removed topic is fenced at every offset":                 topicRecreated,
		"changes are the same by what they say and not by their offsets":        offsetsOfTwoTopics,
		"partitions are written at the same time without harm":                  partitionsTogether,
		"a batch under a cancelled context writes nothing":                      cancelledWritesNothing,
		"changes written again under other offsets add nothing":                 rewrittenLogAddsNothing,
		"a user never goes back to an older version":                            userNeverGoesBack,
		"any cut into batches leaves what the changes say one by one":           cutsDoNotMatter,
		"the ends of all ranges come back as they were written":                 extremesComeBack,
		"users of whom nothing is known are left out":                           unknownUsersLeftOut,
		"a history is newest first and exact to the millisecond":                historyNewestFirst,
		"a history includes from and leaves out to":                             historyBounds,
		"pages cut a history without gap or double":                             historyPages,
		"changes of one instant are told apart by version across pages":         historyOneInstant,
		"the history of a hidden user is empty":                                 hiddenHistoryEmpty,
		"what happened while a user hid is never in the history":                hiddenPartLeftOut,
		"times of when the user hid never come out":                             hiddenTimesLeftOut,
		"what was missed is what came after any version, once, in order":        missedAfterAnyVersion,
		"nothing was missed of a hidden user":                                   missedOfHiddenUser,
		"times of when the user hid are not in what was missed":                 missedTimesLeftOut,
		"a log that was cut says so to those who missed something":              missedFromCutLog,
		"histories reach across days, months and the end of daylight saving":    historyAcrossDays,
		"changes come back as they were written, in order, hidden ones too":     changesComeBack,
		"ranges are exact to the millisecond and across days":                   changesOfRanges,
		"a log of which nothing was dropped has no beginning":                   completeLog,
		"a cut log invents nobody, and says the same of one user as of all":     randomPast,
		"an erased user leaves nothing, and older changes never come back":      erasedLeavesNothing,
		"a user who comes back after an erasure is new":                         erasedComesBack,
		"names are stored with changes, and a second name changes nothing":      namesOfChanges,
		"names of the topic are stored until their tombstone":                   namesOfTheTopic,
		"an erased user's name is deleted, and a later one is stored":           namesOfErased,
		"users of tenants that keep fewer days have nothing older":              tenantsKeepTheirDays,
		"changes of tenants are deleted in small steps":                         tenantsAreCleanedInSteps,
		"users are listed and counted by tenant":                                usersOfTenants,
		"an import counts until a user has a version":                           importCounts,
		"an import stores names, but not those of erased users":                 importNames,
		"a cut log gives the sessions of all changes":                           sessionsOfACutLog,
		"an override is kept until its end, and others know its state alone":    overridesAreKept,
		"an override is known as of an instant, also of an offline user":        overridesOfThePast,
		"lists of denied viewers are those of the log, replayed from any point": deniedAreReplayed,
		"of two changes of a denied viewer the newest counts, in any order":     newestDenialCounts,
		"a list of which changes are missing says so until they come":           missingDenials,
		"10,000 denied viewers are read in pages":                               deniedInPages,
		"an erased user denies nobody, and an erased viewer stays denied":       deniedOfErased,
	} {
		for kind, open := range stores {
			t.Run(kind+": "+name, func(t *testing.T) {
				t.Parallel()
				hold(t, open(t))
			})
		}
	}
}

func emptyBatchMovesOffset(t *testing.T, s Store) {
	must.Do(t, s.Append(t.Context(), store.Batch{Partition: 1, Expected: store.Unknown, Next: 3}))
	must.Do(t, s.Append(t.Context(), store.Batch{Partition: 1, Expected: 3, Next: 9}))
	wantNext(t, s, 1, 9)
}

func unknownPartition(t *testing.T, s Store) { wantNext(t, s, 5, store.Unknown) }

func batchWritesAllThree(t *testing.T, s Store) {
	log := RandomLog(1, 4, 20)
	must.Do(t, s.Append(t.Context(), store.Batch{Partition: 2, Expected: store.Unknown, Next: 25, Changes: log}))
	wantNext(t, s, 2, 25)
	wantUsers(t, s, log)
	wantLog(t, s, log)
}

func cancelledWritesNothing(t *testing.T, s Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Append(ctx, store.Batch{Expected: store.Unknown, Next: 25, Changes: RandomLog(1, 4, 20)}); err == nil {
		t.Error("no error")
	}
	wantNext(t, s, 0, store.Unknown)
	wantUsers(t, s, nil)
}

func wantFenced(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrFenced) {
		t.Fatalf("error %v, want %v", err, store.ErrFenced)
	}
}

func wantNext(t *testing.T, s Store, partition int32, want int64) {
	t.Helper()
	at := must.Get(s.Position(t.Context(), partition))(t)
	if at.Next != want {
		t.Fatalf("next offset of partition %d is %d, want %d", partition, at.Next, want)
	}
}

// wantUsers wants the users to be what log says, and no other of 1 to 100.
func wantUsers(t *testing.T, s Store, log []*schemas.Transition) {
	t.Helper()
	want := map[schemas.UserID]schemas.Current{}
	ids := make([]schemas.UserID, 0, 100)
	for id := range schemas.UserID(100) {
		ids = append(ids, id+1)
	}
	for _, change := range log {
		want[change.User] = store.After(want[change.User], change)
		if change.User > 100 {
			ids = append(ids, change.User)
		}
	}
	got := must.Get(s.Users(t.Context(), ids))(t)
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("users are\n%+v, want\n%+v", got, want)
	}
}

// wantLog wants the histories to be what of log may be shown.
func wantLog(t *testing.T, s Store, log []*schemas.Transition) {
	t.Helper()
	current := map[schemas.UserID]schemas.Current{}
	want := map[schemas.UserID][]*schemas.Transition{}
	for _, change := range log {
		current[change.User] = store.After(current[change.User], change)
		if change.Visibility != schemas.Nobody {
			told := *logged(change)
			want[change.User] = append([]*schemas.Transition{&told}, want[change.User]...)
		}
	}
	for user, c := range current {
		if c.Visibility == schemas.Nobody {
			want[user] = nil
		}
		must.Do(t, store.RedactHidden(want[user], func(schemas.Millis, schemas.Millis) (schemas.Millis, error) { return 0, nil }))
		wantHistory(t, s, store.HistoryQuery{User: user, Limit: len(log) + 1}, want[user])
	}
}

func wantHistory(t *testing.T, s Store, query store.HistoryQuery, want []*schemas.Transition) store.Page {
	t.Helper()
	page := must.Get(s.History(t.Context(), query))(t)
	if len(page.Changes) != len(want) {
		t.Fatalf("history %+v has %d changes, want %d", query, len(page.Changes), len(want))
	}
	for i, change := range page.Changes {
		if *change != *want[i] {
			t.Fatalf("history %+v: change %d is\n%+v, want\n%+v", query, i, *change, *want[i])
		}
	}
	return page
}
