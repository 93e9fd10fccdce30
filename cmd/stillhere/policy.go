package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/output"
	"github.com/stillhere/stillhere/tools/progress"
)

// policyCommand looks at the policy in force, and changes it.
type policyCommand struct {
	Show policyShow `cmd:"" help:"Print the policy in force and the record of each partition since which it is in force, the policy with an id, or all that are in force or were."`
	Set  policySet  `cmd:"" help:"Change the policy in force, or that of a tenant. Settings that are not named do not change."`
}

type policyShow struct {
	ID     string  `arg:"" optional:"" name:"id" help:"The policy_id of a change, or the first digits of it; all: a table of the policies that are in force or were, the oldest first. Default: the policy in force."`
	Tenant *string `help:"Print by what the users of this tenant are judged; empty: the default tenant. Needs a pipeline with --ids text." env:"-"`
	outputFlag
	kafkaFlags
}

// Help is printed below the list of flags.
func (*policyShow) Help() string {
	return `Examples; "history", "replay" and "explain" print ids of policies:

    stillhere policy show
    stillhere policy show 9a1c5e0b7d2f --output json
    stillhere policy show --tenant acme
    stillhere policy show all

Detectors keep the settings of every policy that comes into force, and when it did so first, in the topic presence.policies. The rows of jsonl, csv and parquet are the settings; of all policies they are the policies. Those that tenants have of their own are there, too, with the settings of the pipeline that counted beside them. A policy that came back shows since when it is in force again (LAST) as long as the checkpoints of the detectors have it.`
}

// policyReport is what show prints.
type policyReport struct {
	ID         string              `json:"id"`
	Settings   []schemas.Setting   `json:"settings"`
	Partitions []partitionOfPolicy `json:"partitions"`
}

type partitionOfPolicy struct {
	Partition   int32          `json:"partition"`
	ID          string         `json:"policy_id"`
	SinceOffset int64          `json:"since_offset"`
	Since       schemas.Millis `json:"since,omitzero"` // log time
}

// Run prints.
func (c *policyShow) Run(ctx context.Context) error {
	cluster, err := c.cluster()
	if err != nil {
		return err
	}
	switch {
	case c.ID != "" && c.Tenant != nil:
		return misused(errors.New("--tenant: an id names one policy, of whatever tenant"))
	case c.ID == "all":
		return c.showAll(ctx, cluster)
	case c.ID != "":
		return c.showID(ctx, cluster)
	case c.Tenant != nil:
		return c.showTenant(ctx, cluster, *c.Tenant)
	}
	all, err := policy.InForce(ctx, cluster)
	if err != nil {
		return err
	}
	newest, ok := policy.Newest(all)
	if !ok {
		return errors.New("no policy is in force yet: no detector has committed anything")
	}
	r := policyReport{ID: newest.ID(), Settings: newest.Settings()}
	for _, p := range all {
		r.Partitions = append(r.Partitions, partitionOfPolicy{p.ID, p.Policy.ID(), p.Offset, p.At})
	}
	if c.Output != output.TableFormat {
		return c.print(r, r.Settings)
	}
	fmt.Printf("policy %s\n", r.ID)
	if err := printPolicy(newest); err != nil {
		return err
	}
	for _, p := range r.Partitions {
		since := "the beginning"
		if p.Since != 0 {
			since = fmt.Sprintf("record %d, %s", p.SinceOffset, p.Since)
		}
		fmt.Printf("partition %d: %s since %s\n", p.Partition, p.ID, since)
	}
	return nil
}

// settingColumns are those of the settings of a policy.
var settingColumns = []output.Column[schemas.Setting]{
	{Name: "name", Value: func(s schemas.Setting) any { return s.Name }},
	{Name: "value", Value: func(s schemas.Setting) any { return s.Value }},
}

// print prints a policy for programs: its report in JSON, else its settings.
func (c *policyShow) print(report any, settings []schemas.Setting) error {
	return printObject(c.Output, report, rowsOf(settings), settingColumns)
}

// printPolicy prints the settings of a policy, and what they mean.
func printPolicy(p schemas.Policy) error {
	for _, s := range p.Settings() {
		fmt.Printf("  %-20s %s\n", s.Name, s.Value)
	}
	return printLines(os.Stdout, "", policy.Describe(p))
}

type policySet struct {
	Settings []string      `arg:"" optional:"" name:"setting" help:"SETTING=VALUE, or a preset: ${presets}; default: every setting as in a new pipeline." placeholder:"SETTING=VALUE"`
	Tenant   *string       `help:"Change only the policy of this tenant; empty: of the default tenant. Needs a pipeline with --ids text." env:"-"`
	Remove   bool          `help:"Remove the policy of --tenant, which goes by that of the pipeline again." env:"-"`
	Timeout  time.Duration `help:"Timeout for the detectors." default:"30s" env:"-"`
	kafkaFlags
}

// Help is printed below the list of flags.
func (*policySet) Help() string {
	return `The policy decides when a user is online, away or offline. It is part of the heartbeats log: the command writes a record to every partition, and each detector applies the new policy from that record on. All detectors therefore decide alike, also when they read the log again.

    stillhere policy set online_ttl=45s --kafka-brokers cluster:9092
    stillhere policy set chat away_ttl=2m --kafka-brokers cluster:9092
    stillhere policy set --tenant acme online_ttl=1m away_ttl=10m

The settings, with their defaults:

    heartbeat_interval  15s     how often devices send heartbeats; without it, half of online_ttl, at most 15s
    heartbeat_jitter    0s      by how much shorter that time is at most, so that devices do not send together; 0: a tenth
    online_ttl          30s     how long a device is live after a heartbeat
    offline_debounce    15s     extra silence before the end of online is published
    away_ttl            5m      a silent user is away until this long after the last heartbeat, then offline; 0: offline at once
    idle_after          5m      a live device that nobody touched for this long counts as away; 0: never
    bye_debounce        0s      extra wait after the last device said bye
    allowed_lateness    250ms   how long a limit waits for delayed heartbeats
    gateway_silence     10s     a gateway that was silent for this long counts as lost
    reconnect_window    30s     extra time for the devices of a lost gateway to reconnect
    cohort_rate         2000    devices of lost gateways that may go offline per second and partition
    cohort_total_rate   100000  the same in all partitions together
    announce_devices    true    publish changes in the set of device kinds
    max_devices         32      devices of one user through one gateway, twice as many in all; one more evicts the oldest
    flap_burst          20      changes of one user published at once; after that one every flap_interval; 0: no limit
    flap_interval       2s      time between two changes of a user who has used up flap_burst
    breaker_percent     30      share of the present devices on silent gateways above which presence time stops; 0: never
    breaker_limit       10m     longest time for which presence time stops
    forbid_hiding       false   users may not hide; administrators may hide them, and hidden users stay hidden
    forbid_invisible    false   the same of the override invisible
    coarse_last_seen    false   others learn of nobody more than coarsely when last here

A tenant may have its own heartbeat interval, jitter and time to live, offline debounce, times to away and idle, bye debounce, announcements of devices, and the last three. Its other settings, and those of tenants without a policy, are the pipeline's. At most 64 tenants of a pipeline may have or have had policies of their own.

The other roles adopt it within a minute and send open sockets the new heartbeat interval. From then on, processes with another --policy refuse to start and name both values. Leave --policy out to use the policy in force.`
}

// Run changes.
func (c *policySet) Run(ctx context.Context) error {
	cluster, err := c.cluster()
	if err != nil {
		return err
	}
	asked, err := policy.Parse(c.Settings...)
	if err != nil {
		return misused(err)
	}
	switch {
	case c.Remove && (c.Tenant == nil || len(asked.Names) > 0):
		return misused(errors.New("--remove: needs --tenant, and no setting"))
	case c.Remove:
		if _, _, err := tenantPolicy(ctx, cluster, *c.Tenant); err != nil {
			return err
		}
		return changeTenant(ctx, os.Stdout, cluster, schemas.TenantPolicy{Tenant: *c.Tenant}, c.Timeout)
	case len(asked.Names) == 0:
		return misused(errors.New("no setting is given, e.g. online_ttl=45s"))
	}
	if c.Tenant != nil {
		return c.setTenant(ctx, cluster, *c.Tenant, asked)
	}
	partitions, err := admin.CheckTopics(ctx, cluster)
	if err != nil {
		return err
	}
	all, err := policy.InForce(ctx, cluster)
	if err != nil {
		return err
	}
	inForce, ok := policy.Newest(all)
	if !ok {
		return errors.New("no policy is in force yet: no detector has committed anything. --policy of the first detector says what a new pipeline begins with")
	}
	p := asked.To(inForce)
	if err := p.Validate(); err != nil {
		return err
	}
	for _, d := range policy.Differences(inForce, p) {
		fmt.Printf("%s: %s → %s\n", d.Name, d.InForce, d.Asked)
	}
	if err := policy.Set(ctx, cluster, p, errorsOnly()); err != nil {
		return err
	}
	line := progress.Stderr()
	wait, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	err = policy.Await(wait, cluster, func(done, all int) { line.Say("in force in %d of %d partitions", done, all) })
	line.Clear()
	if err != nil {
		return err
	}
	fmt.Printf("policy %s is in force in all %d partitions\n", p.ID(), partitions)
	return nil
}
