package reference

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// program is a command line with all that the pages distinguish.
type program struct {
	Run struct {
		Kafka string `help:"Where | is <Kafka>." default:"a:1" group:"Kafka:"`
		Own   bool   `help:".Not a command of the formatter."`
	} `cmd:"" help:"Run it."`
	Topics struct {
		Apply struct {
			Kafka string   `help:"Where | is <Kafka>." default:"a:1" group:"Kafka:"`
			Names []string `arg:"" help:"Of topics."`
		} `cmd:"" help:"Apply them."`
	} `cmd:"" help:"Topics."`
	Old struct{} `cmd:"" hidden:"" help:"Not shown."`
}

func parse(t *testing.T) *kong.Node {
	t.Helper()
	parser, err := kong.New(new(program), kong.Name("p"), kong.Description("About.\n\n    p run"), kong.DefaultEnvars("P"))
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model.Node
}

func TestAFlagOfSeveralCommandsIsListedOnce(t *testing.T) {
	t.Parallel()
	page := Commands(parse(t))
	for _, want := range []string{
		"| [topics apply](#stillhere-topics-apply) | Apply them. |", "| `--own` | `P_OWN` |", "- `<names> ...`: Of topics.",
		"have, too: [Kafka](#flags-kafka).", "## Flags: Kafka\n\nOf run, topics apply.", `Where \| is \<Kafka>.`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Count(page, "`--kafka=") != 1 || strings.Contains(page, "Not shown") {
		t.Errorf("the page repeats a flag or shows what is hidden:\n%s", page)
	}
}

func TestNothingInTheManualIsACommandOfItsFormatterByAccident(t *testing.T) {
	t.Parallel()
	page := Manual(parse(t))
	if !strings.Contains(page, ".SS \"topics apply <names> ... [flags]\"") || !strings.Contains(page, "\n\\fB\\-\\-own\\fR\n\\&.Not") {
		t.Errorf("the page is\n%s", page)
	}
	known := []string{".TH", ".SH", ".SS", ".PP", ".TP", ".B", ".nf", ".fi"}
	for line := range strings.Lines(page) {
		if command, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(line, "'") ||
			strings.HasPrefix(line, ".") && !slices.Contains(known, command) {
			t.Errorf("the formatter takes this for a command: %q", line)
		}
	}
	for text, want := range map[string]string{".TH x": `\&.TH x`, "'a": `\&'a`, `a\b-c`: `a\eb\-c`, "a\n.b": "a .b"} {
		if got := roff(text); got != want {
			t.Errorf("%q becomes %q, not %q", text, got, want)
		}
	}
}

// metricsIn reads the metrics of a file with this body.
func metricsIn(t *testing.T, body string) ([]Metric, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "metrics.go")
	if err := os.WriteFile(path, []byte("package p\n"+body), 0o600); err != nil {
		t.Fatal(err)
	}
	return metricsOf(path)
}

func TestMetricsOfHelpersAreReadWithTheirLabels(t *testing.T) {
	t.Parallel()
	all, err := metricsIn(t, `const prefix = "a_"
func direct() {
	f.NewGaugeVec(prometheus.GaugeOpts{Namespace: "n", Subsystem: "s", Name: "g", Help: "G" + "."}, []string{"x"})
}
func helpers() {
	counter := func(name, help string, labels ...string) C {
		return f.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, append([]string{"group"}, labels...))
	}
	opts := func(name string) H { return prometheus.HistogramOpts{Name: name, Help: "H."} }
	counter("c_total", "C.", "y", "z")
	f.NewHistogramVec(opts("h_seconds"), []string{"w"})
}`)
	if err != nil {
		t.Fatal(err)
	}
	want := []Metric{{"n_s_g", "gauge", "G.", []string{"x"}}, {"a_c_total", "counter", "C.", []string{"group", "y", "z"}},
		{"h_seconds", "histogram", "H.", []string{"w"}}}
	if !slices.EqualFunc(all, want, func(a, b Metric) bool {
		return a.Name == b.Name && a.Kind == b.Kind && a.Help == b.Help && slices.Equal(a.Labels, b.Labels)
	}) {
		t.Errorf("read %+v, want %+v", all, want)
	}
}

func TestAMetricWhoseNameCannotBeReadIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := metricsIn(t, `var g = f.NewGauge(prometheus.GaugeOpts{Name: name(), Help: "G."})`); err == nil {
		t.Error("it is left out")
	}
}

func TestFieldsOfNestedObjectsAreInTheTable(t *testing.T) {
	t.Parallel()
	page, err := HTTP([]byte(`
info: {description: About.}
paths:
  /a:
    get:
      summary: Read.
      parameters: [{name: limit, in: query, schema: {type: integer, minimum: 1, maximum: 9, default: 3}}]
      responses:
        '200': {description: Fine., content: {application/json: {schema: {$ref: '#/components/schemas/User'}}}}
        default: {$ref: '#/components/responses/Error'}
components:
  responses: {Error: {description: Wrong.}}
  schemas:
    User: {type: object, properties: {list: {type: array, items: {type: object, properties: {id: {type: [string, 'null']}}}}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"## GET /a\n\nRead.", "| `limit` | query | integer 1 to 9, default 3 |", "[User](#user)",
		"| `list` | list of object |", "| `list[].id` | string or null |"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}
