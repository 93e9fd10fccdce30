package watch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"

	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

// NamedWatcher is a Watcher of users of one tenant, by their names, in pipelines with --ids text. Any goroutine
// may call Add, Remove and Users, also while Events runs.
type NamedWatcher struct{ *core[string] }

// NewNamed makes a watcher of users of a tenant; Events connects it. An empty tenant is that of the token, or
// the default one. Errors are as those of New and of Add.
func NewNamed(c Config, tenant string, users ...string) (*NamedWatcher, error) {
	if err := errors.Join(c.Validate(), schemas.CheckTenant("tenant", tenant)); err != nil {
		return nil, err
	}
	options := watch.Options{Named: true}
	if tenant != "" {
		options.URL = "?tenant=" + url.QueryEscape(tenant)
	}
	w := &NamedWatcher{newCore(c, options, naming[string]{
		of:    func(p schemas.Presence) string { return p.Name.Text },
		texts: func(names []string) []string { return names },
		parse: func(text string) (string, schemas.Presence, error) {
			return text, schemas.Presence{Name: &schemas.Name{Tenant: tenant, Text: text}}, schemas.CheckName("user_id", text)
		},
	})}
	if err := w.Add(users...); err != nil {
		return nil, err
	}
	return w, nil
}

// Add watches further users. If one cannot be a name, it watches none of them, and the error, a
// *schemas.FieldError, says which.
func (w *NamedWatcher) Add(users ...string) error {
	for i, user := range users {
		if err := schemas.CheckName(fmt.Sprintf("users[%d]", i), user); err != nil {
			return err
		}
	}
	w.add(users)
	return nil
}

// Remove stops watching users. An event of one may still come.
func (w *NamedWatcher) Remove(users ...string) { w.remove(users) }

// Users returns the names of the watched users.
func (w *NamedWatcher) Users() []string { return w.all() }

// Events is that of a Watcher.
func (w *NamedWatcher) Events(ctx context.Context) iter.Seq2[Event, error] { return w.run(ctx) }
