package query

import (
	"context"
	"net/http"
	"time"

	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

// countsAnswer is the answer to GET /presence/count.
type countsAnswer struct {
	Online  int64            `json:"online"`
	Away    int64            `json:"away"`
	Devices map[string]int64 `json:"devices"`
	// AsOf is the oldest instant of the counts that are added up.
	AsOf       schemas.Millis `json:"as_of"`
	StaleSince schemas.Millis `json:"stale_since"`
	// Missing are the partitions of which no count is known, or none of the tenant; their users are not
	// counted.
	Missing []int32 `json:"missing_partitions"`
}

// counts answers GET /presence/count: the newest counts of all partitions together, of all tenants or
// of one.
func (s *Server) counts(ctx context.Context, request *http.Request, _ http.Header) ([]byte, error) {
	byPartition, err := s.readCounts(ctx, request)
	if err != nil {
		return nil, err
	}
	sum, missing := redisview.SumCounts(byPartition, s.reader.partitions)
	answer := countsAnswer{Devices: map[string]int64{}, AsOf: sum.At, Missing: missing}
	answer.Online, answer.Away = sum.Online, sum.Away
	for i, kind := range schemas.Kinds {
		answer.Devices[schemas.KindWord(kind)] = sum.ByKind[i]
	}
	now := schemas.MillisOf(time.Now())
	switch {
	case len(answer.Missing) > 0 && answer.AsOf == 0:
		answer.StaleSince = now
	case now-answer.AsOf > schemas.Millis(s.config.StaleAfter.Milliseconds()):
		answer.StaleSince = answer.AsOf
	}
	return mustJSON(answer), nil
}

// readCounts reads the counts of the tenant that the request names, or that its sender is bound to;
// else those of all users.
func (s *Server) readCounts(ctx context.Context, request *http.Request) (map[int32]redisview.PartitionCounts, error) {
	q, err := s.ask(request) // refuses another tenant than the sender's
	switch {
	case err != nil:
		return nil, err
	case !q.Has(tenantParameter) && (s.bound == nil || !s.bound(request)):
		return s.reader.view.Counts(ctx)
	}
	if err := schemas.CheckTenant(tenantParameter, q.tenant); err != nil {
		return nil, err
	}
	return s.reader.view.CountsOfTenant(ctx, q.tenant, s.reader.partitions)
}
