package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/output"
)

// tenantsCommand looks at the settings of tenants, and changes them.
type tenantsCommand struct {
	Show tenantsShow `cmd:"" help:"Print what counts for a tenant, and where each setting comes from; without a tenant, for each that has settings. Or how many users and changes a store has of tenants."`
	Set  tenantsSet  `cmd:"" help:"Change settings of a tenant, or remove them. Settings without a flag do not change."`
}

// tenantsFlags are those of every subcommand. The identity key is not needed: names of users are not
// read.
type tenantsFlags struct{ kafkaFlags }

func (f *tenantsFlags) cluster() (kafka.Config, error) {
	f.Kafka.IDs, f.Kafka.IdentityKey, f.Kafka.IdentityKeyFile = "", "", ""
	return f.kafkaFlags.cluster()
}

func (f *tenantsFlags) read(ctx context.Context) (*tenants.Directory, error) {
	cluster, err := f.cluster()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	return tenants.Read(ctx, cluster, errorsOnly())
}

// tenantName is the argument of a tenant.
type tenantName struct {
	Tenant string `arg:"" help:"The tenant; \"\" is the default tenant, '*' the settings of every tenant that has none of its own."`
}

func (n tenantName) check() error { return misused(schemas.Tenant{Name: n.Tenant}.Check()) }

// shownTenant is a tenant as commands print it.
func shownTenant(name string) string { return cmp.Or(name, `""`) }

// shownNumber is a setting in force; 0: no limit.
func shownNumber(name string, value int64) string {
	switch {
	case value > 0:
		return strconv.FormatInt(value, 10)
	case name == historyDays:
		return "as all"
	}
	return "none"
}

// historyDays is the setting of how long changes are kept.
const historyDays = "history_days"

// tenantReport is what the commands print as JSON.
type tenantReport struct {
	Tenant   string            `json:"tenant"`
	Settings map[string]*int64 `json:"settings"` // in force; null: no limit, or as the pipeline
	Own      map[string]int64  `json:"own"`      // of the tenant's record; -1: no limit
	Note     string            `json:"note,omitempty"`
}

func reportOf(record, all schemas.Tenant) tenantReport {
	r := tenantReport{Tenant: record.Name, Settings: map[string]*int64{}, Own: map[string]int64{}, Note: record.Note}
	for _, n := range record.Numbers() {
		if *n.Value != 0 {
			r.Own[n.Name] = *n.Value
		}
	}
	in := record.InForce(all, schemas.DefaultQuotas)
	for _, n := range in.Numbers() {
		r.Settings[n.Name] = nil
		if *n.Value != 0 {
			r.Settings[n.Name] = n.Value
		}
	}
	return r
}

// recordsOf finds the record of a tenant, and that of all tenants.
func recordsOf(d *tenants.Directory, name string) (record, all schemas.Tenant, known bool) {
	record.Name = name
	for _, t := range d.Records() {
		if t.Name == name {
			record, known = t, true
		}
		if t.Name == schemas.AllTenants {
			all = t
		}
	}
	return record, all, known
}

// tenantColumns are those of tenants: the settings in force, and which of them are their own.
func tenantColumns() []output.Column[tenantReport] {
	all := []output.Column[tenantReport]{{Name: "tenant", Value: func(r tenantReport) any { return r.Tenant }}}
	for _, n := range new(schemas.Tenant).Numbers() {
		all = append(all, output.Column[tenantReport]{Name: n.Name, Value: func(r tenantReport) any { return r.Settings[n.Name] }})
	}
	return append(all, output.Column[tenantReport]{Name: "own", Value: func(r tenantReport) any { return slices.Sorted(maps.Keys(r.Own)) }},
		output.Column[tenantReport]{Name: "note", Value: func(r tenantReport) any { return r.Note }})
}

// all prints the tenants that have settings.
func (c *tenantsShow) all(d *tenants.Directory) error {
	_, all, _ := recordsOf(d, schemas.AllTenants)
	reports := []tenantReport{}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TENANT\tUSERS ONLINE\tCONNECTIONS/PROCESS\tBEATS/S/PROCESS\tCHANGES/S/PROCESS\tSUBSCRIPTIONS/PROCESS\tREADS/S/PROCESS\tHISTORY DAYS\tNOTE")
	for _, t := range d.Records() {
		reports = append(reports, reportOf(t, all))
		in := t.InForce(all, schemas.DefaultQuotas)
		fmt.Fprint(table, shownTenant(t.Name))
		for _, n := range in.Numbers() {
			fmt.Fprint(table, "\t", shownNumber(n.Name, *n.Value))
		}
		fmt.Fprintln(table, "\t"+t.Note)
	}
	if c.Output != output.TableFormat {
		return printRows(c.Output, rowsOf(reports), tenantColumns())
	}
	return table.Flush()
}

type tenantsShow struct {
	Tenant *string `arg:"" optional:"" help:"The tenant; \"\" is the default tenant, '*' the settings of every tenant that has none of its own."`
	Table  string  `help:"What to print: ${enum}. users: how many users a store knows of each tenant, and who of them is online or away; this takes seconds for millions and needs no Kafka. changes: also how many changes it keeps, which reads its whole log." enum:"settings,users,changes" default:"settings" env:"-"`
	outputFlag
	storeCommand
	tenantsFlags
}

// tenantSetting is a row of show.
type tenantSetting struct {
	Setting string `json:"setting"`
	Value   *int64 `json:"value"` // in force; null: no limit, or as the pipeline
	From    string `json:"from"`  // default, tenant or all
}

var tenantSettingColumns = []output.Column[tenantSetting]{
	{Name: "setting", Value: func(s tenantSetting) any { return s.Setting }},
	{Name: "value", Value: func(s tenantSetting) any { return s.Value }},
	{Name: "from", Value: func(s tenantSetting) any { return s.From }},
}

// settingsFrom are the settings of a report, with where they come from.
func settingsFrom(report tenantReport, all schemas.Tenant) (rows []tenantSetting) {
	for _, n := range all.Numbers() {
		row := tenantSetting{Setting: n.Name, Value: report.Settings[n.Name], From: "default"}
		if _, own := report.Own[n.Name]; own {
			row.From = "tenant"
		} else if *n.Value != 0 {
			row.From = "all"
		}
		rows = append(rows, row)
	}
	return rows
}

// Run prints.
func (c *tenantsShow) Run(ctx context.Context) error {
	if c.Tenant != nil {
		if err := (tenantName{*c.Tenant}).check(); err != nil {
			return err
		}
	}
	if c.Table != "settings" {
		return c.sizes(ctx)
	}
	d, err := c.read(ctx)
	if err != nil {
		return err
	}
	if c.Tenant == nil {
		return c.all(d)
	}
	record, all, _ := recordsOf(d, *c.Tenant)
	if c.Output != output.TableFormat {
		report := reportOf(record, all)
		return printObject(c.Output, report, rowsOf(settingsFrom(report, all)), tenantSettingColumns)
	}
	fmt.Printf("tenant %s\n", shownTenant(*c.Tenant))
	in := record.InForce(all, schemas.DefaultQuotas)
	others, inForce := all.Numbers(), in.Numbers()
	for i, own := range record.Numbers() {
		from := "default"
		switch {
		case *own.Value != 0:
			from = "set"
		case *others[i].Value != 0:
			from = "set for all tenants (*)"
		}
		fmt.Printf("  %-32s %-10s %s\n", own.Name, shownNumber(own.Name, *inForce[i].Value), from)
	}
	if in.HistoryDays > 0 {
		fmt.Println("  The stores show and keep changes of these days only, or of --audit-retention if that is shorter; topics keep what they keep for everybody (--retention).")
	}
	if record.Note != "" {
		fmt.Printf("  %-32s %s\n", "note", record.Note)
	}
	return nil
}

// set changes a setting.
func set(record *schemas.Tenant, name, text string) error {
	if name == "note" {
		record.Note = text
		return nil
	}
	var names []string
	for _, n := range record.Numbers() {
		if names = append(names, n.Name); n.Name != name {
			continue
		}
		switch text {
		case "default":
			*n.Value = 0
			return nil
		case "none":
			*n.Value = schemas.NoLimit
			return nil
		}
		value, err := strconv.ParseInt(text, 10, 64)
		if err != nil || value < 1 {
			return fmt.Errorf("%s: must be a positive number, none or default, is %q", name, text)
		}
		*n.Value = value
		return nil
	}
	return fmt.Errorf("there is no setting %q, but %s and note", name, strings.Join(names, ", "))
}

type tenantsSet struct {
	tenantName
	Settings map[string]string `arg:"" optional:"" name:"setting" mapsep:"none" help:"SETTING=VALUE: a setting as \"tenants show\" prints it, with a number, none or default; or note=TEXT, for people." placeholder:"SETTING=VALUE"`
	Remove   bool              `help:"Remove all settings of the tenant; those of all tenants count for it again." env:"-"`
	tenantsFlags
}

// Help is printed below the list of flags.
func (*tenantsSet) Help() string {
	return `Each setting is a number, none (no limit) or default: the setting of '*', and without one what "tenants show" prints for a tenant that has no settings. The default tenant has no quotas unless they are set. The settings are a record of the topic presence.pipeline, and every process applies them within seconds.

    stillhere tenants set acme users_online=10000 beats_per_second_per_process=700 --kafka-brokers cluster:9092
    stillhere tenants set '*' connections_per_process=1000
    stillhere tenants set acme connections_per_process=none 'note=on trial'

    users_online                    users online or away at a time, in the whole pipeline; more are refused. Approximate: counts are seconds old. Present users are unaffected
    connections_per_process         open sockets and streams
    beats_per_second_per_process    beats by HTTP and sockets
    changes_per_second_per_process  requests that change something: visibility, erasures, edges of the follower graph. Each kind has the whole rate
    subscriptions_per_process       users who are watched on sockets and streams, each one per connection
    reads_per_second_per_process    read requests; every 50 users of one count as a request
    history_days                    UTC days for which the stores keep changes of the tenant's users, besides today; never longer than --audit-retention. What a smaller number drops does not come back

history_days is for history, missed changes, exports, replays of the store, asof and sessions: they show nothing older, and lastseen deletes it within a day, a few thousand rows at a time. It needs --ids text and users whose names are known. The current state and last seen of a user stay. Topics have no days of a tenant: presence.transitions keeps its records for everybody, and whoever may read it, or replays it, reads them.

What is over a quota is answered with 429 and Retry-After, and counted in stillhere_tenant_refused_total. Quotas per process hold in each process by itself: N processes behind a load balancer allow N times as much. Gateways that write to Kafka directly are not bounded. The quota of users online needs an ingest that has Redis and a store. Where brokers check ACLs, the command needs the rights of "topics acls --role operator --ids text".`
}

// Run changes.
func (c *tenantsSet) Run(ctx context.Context) error {
	if err := c.check(); err != nil {
		return err
	}
	switch {
	case len(c.Settings) > 0 && c.Remove:
		return misused(errors.New("--remove: removes all settings, and none can be given"))
	case len(c.Settings) == 0 && !c.Remove:
		return misused(errors.New("<setting>: no setting is given, e.g. users_online=10000"))
	}
	cluster, err := c.cluster()
	if err != nil {
		return err
	}
	d, err := c.read(ctx)
	if err != nil {
		return err
	}
	record, _, known := recordsOf(d, c.Tenant)
	if c.Remove {
		return c.remove(ctx, cluster, known)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Settings)) {
		if err := set(&record, name, c.Settings[name]); err != nil {
			return misused(fmt.Errorf("<setting>: %w", err))
		}
	}
	if err := record.Check(); err != nil {
		return misused(err)
	}
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	if err := tenants.Set(ctx, cluster, record, errorsOnly()); err != nil {
		return err
	}
	fmt.Printf("the settings of tenant %s are changed; every process applies them within %s\n", shownTenant(c.Tenant), tenants.Interval)
	return nil
}

// remove removes the settings.
func (c *tenantsSet) remove(ctx context.Context, cluster kafka.Config, known bool) error {
	if !known {
		return fmt.Errorf("tenant %s has no settings", shownTenant(c.Tenant))
	}
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	if err := tenants.Unset(ctx, cluster, c.Tenant, errorsOnly()); err != nil {
		return err
	}
	fmt.Printf("the settings of tenant %s are removed; every process applies that within %s\n", shownTenant(c.Tenant), tenants.Interval)
	return nil
}
