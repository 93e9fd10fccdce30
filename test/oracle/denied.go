package oracle

import (
	"maps"

	"github.com/stillhere/stillhere/schemas"
)

// setDenied changes whom a user denies, unless nothing changes or the list would be too long. What was published last
// stays.
func (w *world) setDenied(id schemas.UserID, d schemas.Denies) {
	u := w.user(id)
	if u == nil {
		return
	}
	w.lookAhead(u, w.presence(w.now))
	u = w.user(id)
	before := u.override.Audience
	partial := w.partial[id] || w.denied[id] == nil && before != 0
	all := map[schemas.UserID]bool{}
	maps.Copy(all, w.denied[id])
	var added, removed []schemas.UserID
	add, remove := d.Changes()
	for _, viewer := range remove {
		if all[viewer] || partial {
			removed = append(removed, viewer)
		}
		delete(all, viewer)
	}
	for _, viewer := range add {
		if !all[viewer] {
			added = append(added, viewer)
		}
		all[viewer] = true
	}
	if len(added)+len(removed) > 0 && len(all) <= schemas.MaxDenied {
		w.denied[id], w.partial[id] = all, partial
		at, audience := max(w.now, w.earliest(u)), schemas.NewVersion(w.epoch, w.offset-w.base, w.caused[id])
		u.override.Audience, u.published.override.Audience = audience, audience
		t := w.emit(u, u.published, at, schemas.AudienceSet)
		t.Denies, _ = schemas.NewDenies("", id, added, removed)
		t.AudienceBefore = before
		u.publishedAt, u.dirty = at, true
	}
	w.forget(u)
}
