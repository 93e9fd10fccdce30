package app

import (
	"context"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/shown"
)

// openErasures opens the topic of erasures at its end, so that what this process writes of users is forgotten
// when they are erased; nil with --ids int. Without the right to read it the process works on, and logs a
// warning when it runs.
func (b *builder) openErasures(ctx context.Context) (*shown.Erasures, error) {
	if !b.cluster.Users.Text() {
		return nil, nil
	}
	reader, err := kafka.NewReader(b.cluster, b.log)
	if err != nil {
		return nil, err
	}
	f := shown.NewErasures(reader, b.log)
	return f, b.add(closing("reader of the erasures", reader.Close), f.Open(ctx))
}
