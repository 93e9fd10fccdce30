package schemas

import "encoding/json"

// IsNamed reports whether the users of n have names, as in pipelines with --ids text.
func (n Notice) IsNamed() bool {
	return n.Text || n.Names != nil || n.Transition.Name != (Name{})
}

// namedUser has the name of the user; null if it is not known.
type namedUser struct {
	UserID *string `json:"user_id"`
}

// namedBody is Body with names. The messages are one struct deeper than namedUser and Recipients, so
// in JSON these replace the fields of the same names, which hold ids.
func (n Notice) namedBody() ([]byte, error) {
	var user namedUser
	if name := n.Transition.Name.Text; name != "" {
		user.UserID = &name
	}
	if n.Recipients == nil {
		type message struct{ TransitionMessage }
		return json.Marshal(struct {
			namedUser
			message
		}{user, message{n.transitionMessage()}})
	}
	recipients := make([]string, 0, len(n.Names))
	for _, name := range n.Names {
		if name != "" {
			recipients = append(recipients, name)
		}
	}
	type message struct{ NoticeMessage }
	return json.Marshal(struct {
		namedUser
		message
		Recipients []string `json:"recipients"`
	}{user, message{n.Message()}, recipients})
}
