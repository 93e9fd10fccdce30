package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/internal/faults"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/schemas"
)

// beatCommand sends heartbeats over HTTP.
type beatCommand struct {
	User   string        `arg:"" optional:"" help:"The user: an id, with --ids text a name."`
	URL    string        `help:"URL of the service." default:"http://127.0.0.1:8080"`
	IDs    string        `name:"ids" help:"How the pipeline names users, int or text. Not needed: the server knows it." enum:",int,text" default:""`
	Tenant string        `help:"With --ids text: the user's tenant, if it is neither the default one nor that of the token."`
	Device string        `help:"The user's device: a number, with --ids text any text." default:"1"`
	Kind   string        `help:"Kind of the device: ${enum}." enum:"mobile,desktop,web,bot,other" default:"desktop"`
	Idle   time.Duration `help:"Time since the user last touched the device." default:"0s"`
	Every  time.Duration `help:"Repeat at this interval until interrupted; 0: send once." default:"0s"`
	Bye    bool          `help:"Send a bye: at once, or with --every when interrupted."`
	tokenFlag
}

// Help is shown above the flags.
func (*beatCommand) Help() string {
	return `Examples:

    stillhere beat 1
    stillhere beat 1 --device 7 --kind mobile --every 15s --bye
    stillhere beat bob --tenant acme --device laptop`
}

// Run sends until ctx ends.
func (c *beatCommand) Run(ctx context.Context) error {
	if c.User == "" {
		return misused(errOneUser)
	}
	if c.IDs == string(identity.Int) {
		if _, err := schemas.ParseUserID("<user>", c.User); err != nil {
			return misused(fmt.Errorf("%w; with --ids text users have names", err))
		}
	}
	if c.Every <= 0 {
		return c.send(ctx, c.Bye)
	}
	ticker := time.NewTicker(c.Every)
	defer ticker.Stop()
	for {
		if err := c.send(ctx, false); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			if !c.Bye {
				return nil
			}
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			return c.send(last, true)
		}
	}
}

func (c *beatCommand) send(ctx context.Context, bye bool) error {
	report := map[string]any{
		"user_id": c.User, "device_id": c.Device, "device_kind": c.Kind, "idle_ms": c.Idle.Milliseconds(), "bye": bye,
	}
	if c.Tenant != "" {
		report["tenant"] = c.Tenant
	}
	body, err := json.Marshal(map[string]any{"beats": []any{report}})
	if err != nil {
		return fmt.Errorf("writing the beat: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+"/presence/heartbeats", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("--url: %w", faults.Error(err))
	}
	if request.Header, err = c.header(ctx); err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("sending a beat of user %s: %w", c.User, faults.Error(err))
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return fmt.Errorf("reading the answer to a beat of user %s: %w", c.User, err)
	}
	if response.StatusCode != http.StatusAccepted {
		refused := client.ProblemOf(response.StatusCode, response.Header, answer)
		refused.Message = beatFields.Replace(refused.Message)
		return fmt.Errorf("sending a beat of user %s: %w", c.User, refused)
	}
	what := "beat"
	if bye {
		what = "bye"
	}
	now := time.Now()
	fmt.Printf("%s  user %s device %s  %s\n", clock(now, now), c.User, c.Device, what)
	return nil
}

// beatFields are the fields of the only beat of a request, as they are typed.
var beatFields = strings.NewReplacer("beats[0].user_id", "<user>", "beats[0].device_id", "--device", "beats[0].device_kind", "--kind",
	"beats[0].idle_ms", "--idle", "beats[0].tenant", "--tenant")
