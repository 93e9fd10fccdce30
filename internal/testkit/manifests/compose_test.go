package manifests

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

func compose(t *testing.T) *types.Project {
	t.Helper()
	return must.Get(ReadCompose())(t)
}

// oneShot services end by themselves.
var oneShot = []string{"topics", "migrate", "follows"}

func TestEveryImageIsPinned(t *testing.T) {
	t.Parallel()
	pinned := regexp.MustCompile(`^[a-z0-9./-]+:(v?\d+\.\d+(\.\d+)?(-[a-z0-9.]+)?|dev)(@sha256:[0-9a-f]{64})?$`)
	for name, s := range compose(t).Services {
		if !pinned.MatchString(s.Image) || strings.HasSuffix(s.Image, ":dev") != RunsStillhere(s) {
			t.Errorf("%s: the image %q is not named with a version of its own", name, s.Image)
		}
		if RunsStillhere(s) && (s.Build == nil || s.Build.Dockerfile != "deploy/docker/Dockerfile" || s.Build.Context != root(t)) {
			t.Errorf("%s: is not built from this repository: %+v", name, s.Build)
		}
	}
}

func TestEveryServiceMayDoOnlyWhatItMust(t *testing.T) {
	t.Parallel()
	writesItsRoot := []string{"kafka"} // the image makes its configuration at start
	for name, s := range compose(t).Services {
		uid, _, _ := strings.Cut(s.User, ":")
		if id, err := strconv.Atoi(uid); err != nil || id == 0 {
			t.Errorf("%s: runs as %q; name a number that is not root's", name, s.User)
		}
		if !slices.Contains(s.SecurityOpt, "no-new-privileges:true") || !slices.Equal(s.CapDrop, []string{"ALL"}) {
			t.Errorf("%s: keeps privileges: %v %v", name, s.SecurityOpt, s.CapDrop)
		}
		if s.ReadOnly == slices.Contains(writesItsRoot, name) {
			t.Errorf("%s: read_only is %v", name, s.ReadOnly)
		}
		limits := s.Deploy.Resources.Limits
		if limits.NanoCPUs == 0 || limits.MemoryBytes == 0 || limits.Pids == 0 {
			t.Errorf("%s: has no limits of CPU, memory and processes: %+v", name, limits)
		}
		if len(s.Logging.Options) == 0 {
			t.Errorf("%s: its logs may fill the disk", name)
		}
		checkHeap(t, name, Value(s, "GOMEMLIMIT"), int64(limits.MemoryBytes))
	}
}

// checkHeap checks that GOMEMLIMIT, if set, leaves a tenth of the memory to what is not heap.
func checkHeap(t *testing.T, name, limit string, memory int64) {
	t.Helper()
	if limit == "" {
		return
	}
	heap, err := strconv.ParseInt(strings.TrimSuffix(limit, "MiB"), 10, 64)
	if err != nil {
		t.Errorf("%s: GOMEMLIMIT %q is not a number of MiB", name, limit)
	}
	if heap<<20 > memory*9/10 {
		t.Errorf("%s: GOMEMLIMIT %s leaves nothing of %d bytes for what is not heap", name, limit, memory)
	}
}

// mounts reports whether a service mounts a volume, or a folder of the repository, at a path.
func mounts(t *testing.T, s types.ServiceConfig, source, target string) bool {
	t.Helper()
	return slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool {
		return v.Target == target && (v.Source == source || v.Source == filepath.Join(root(t), source))
	})
}

// root is the folder of the repository, as Compose resolves it.
func root(t *testing.T) string {
	t.Helper()
	return must.Get(filepath.Abs(Root()))(t)
}

func TestPortsArePublishedOnlyOnTheLoopback(t *testing.T) {
	t.Parallel()
	taken := map[string]string{}
	for name, s := range compose(t).Services {
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s: %+v can be reached from other machines", name, port)
			}
			if other := taken[port.Published]; other != "" {
				t.Errorf("%s and %s both want port %s", name, other, port.Published)
			}
			taken[port.Published] = name
			if listen := Value(s, "STILLHERE_LISTEN"); RunsStillhere(s) && !strings.HasSuffix(listen, fmt.Sprint(":", port.Target)) {
				t.Errorf("%s: port %d is published but it listens at %q", name, port.Target, listen)
			}
		}
		if Value(s, "STILLHERE_ALLOW_UNAUTHENTICATED") == "true" && len(s.Ports) == 0 && name != "detector" { // whose heartbeats it is about
			t.Errorf("%s: takes requests that nobody can send", name)
		}
	}
}

func TestEverythingMountedIsThere(t *testing.T) {
	t.Parallel()
	c := compose(t)
	used := map[string]bool{}
	for name, s := range c.Services {
		for _, mount := range s.Volumes {
			if mount.Type == types.VolumeTypeVolume {
				used[mount.Source] = true
				if _, there := c.Volumes[mount.Source]; !there {
					t.Errorf("%s: there is no volume %s", name, mount.Source)
				}
				continue
			}
			if _, err := os.Stat(mount.Source); err != nil || !strings.HasPrefix(mount.Source, root(t)) || !mount.ReadOnly {
				t.Errorf("%s: %s must be in the repository and mounted read-only (%v)", name, mount.Source, err)
			}
			if !strings.HasPrefix(mount.Target, "/") {
				t.Errorf("%s: %s is mounted nowhere", name, mount.Source)
			}
		}
	}
	for volume := range c.Volumes {
		if !used[volume] {
			t.Errorf("nobody uses the volume %s", volume)
		}
	}
	for _, m := range []struct{ service, volume, target string }{
		{"postgres", "postgres-data", "/var/lib/postgresql"}, // Postgres 18 keeps its data below it
		{"kafka", "kafka-data", Value(c.Services["kafka"], "KAFKA_LOG_DIRS")},
	} {
		if s := c.Services[m.service]; !mounts(t, s, m.volume, m.target) {
			t.Errorf("%s keeps its data in %s, which is in no volume of %v", m.service, m.target, s.Volumes)
		}
	}
}

func TestServicesWaitForWhatTheyNeed(t *testing.T) {
	t.Parallel()
	c := compose(t)
	for name, s := range c.Services {
		for on, dependency := range s.DependsOn {
			other, there := c.Services[on]
			switch {
			case !there:
				t.Errorf("%s waits for %s, which is no service", name, on)
			case len(other.Profiles) > 0:
				t.Errorf("%s waits for %s, which is not always started", name, on)
			case dependency.Condition == "service_healthy" && (other.HealthCheck == nil || other.HealthCheck.Disable || len(other.HealthCheck.Test) == 0):
				t.Errorf("%s waits for the health of %s, which has no check", name, on)
			case dependency.Condition == "service_completed_successfully" && !slices.Contains(oneShot, on):
				t.Errorf("%s waits for the end of %s, which does not end", name, on)
			case dependency.Condition == "":
				t.Errorf("%s does not say what it waits for at %s", name, on)
			}
		}
		for setting, server := range map[string]string{"STILLHERE_KAFKA_BROKERS": "kafka", "STILLHERE_REDIS": "redis", "STILLHERE_POSTGRES": "postgres"} {
			if Value(s, setting) != "" && !waits(c, name, server, 5) {
				t.Errorf("%s uses %s and does not wait for it", name, server)
			}
		}
		if RunsStillhere(s) && len(s.Profiles) == 0 && !slices.Contains(oneShot, name) && !slices.Equal(s.HealthCheck.Test, []string{"CMD", "/stillhere", "health", "--ready"}) {
			t.Errorf("%s: its health is asked by %v", name, s.HealthCheck.Test)
		}
		if slices.Contains(oneShot, name) != strings.HasPrefix(s.Restart, "on-failure") {
			t.Errorf("%s: restart is %q", name, s.Restart)
		}
	}
}

// waits reports whether a service starts after another, directly or not.
func waits(c *types.Project, name, server string, depth int) bool {
	for on := range c.Services[name].DependsOn {
		if on == server || depth > 0 && waits(c, on, server, depth-1) {
			return true
		}
	}
	return false
}

func TestRolesAskForServersWhereTheyAre(t *testing.T) {
	t.Parallel()
	c := compose(t)
	kafka, postgres := Value(c.Services["kafka"], "KAFKA_ADVERTISED_LISTENERS"), c.Services["postgres"]
	instances := map[string]string{}
	for name, s := range c.Services {
		if !RunsStillhere(s) {
			continue
		}
		if brokers := Value(s, "STILLHERE_KAFKA_BROKERS"); brokers != "" && !strings.Contains(kafka, "://"+brokers) {
			t.Errorf("%s looks for Kafka at %s, which advertises %s", name, brokers, kafka)
		}
		if redis := Value(s, "STILLHERE_REDIS"); redis != "" && redis != "redis:6379" {
			t.Errorf("%s looks for Redis at %s", name, redis)
		}
		if text := Value(s, "STILLHERE_POSTGRES"); text != "" {
			at := must.Get(url.Parse(text))(t)
			password, _ := at.User.Password()
			if at.Host != "postgres:5432" || at.User.Username() != Value(postgres, "POSTGRES_USER") || password != Value(postgres, "POSTGRES_PASSWORD") || at.Path != "/"+Value(postgres, "POSTGRES_DB") {
				t.Errorf("%s: %s is not what the service postgres has: %v", name, text, postgres.Environment)
			}
		}
		if text := Value(s, "STILLHERE_URL"); text != "" {
			at := must.Get(url.Parse(text))(t)
			if listen := Value(c.Services[at.Hostname()], "STILLHERE_LISTEN"); !strings.HasSuffix(listen, ":"+at.Port()) {
				t.Errorf("%s looks for %s, which listens at %q", name, text, listen)
			}
		}
		if instance := Value(s, "STILLHERE_INSTANCE"); instance != "" {
			if other := instances[instance]; other != "" {
				t.Errorf("%s and %s are both called %s: they would fence each other", name, other, instance)
			}
			instances[instance] = name
		} else if Value(s, "STILLHERE_ADMIN") != "" && name != "canary" { // it is in no group
			t.Errorf("%s has no name that stays the same when its container is recreated", name)
		}
		if grace := s.StopGracePeriod; grace == nil || time.Duration(*grace) < 40*time.Second {
			t.Errorf("%s: is killed after %s, before it has finished what it holds", name, grace)
		}
	}
}

func TestPrometheusScrapesEveryRole(t *testing.T) {
	t.Parallel()
	c := compose(t)
	var config struct {
		Scrape []struct {
			Job    string `yaml:"job_name"`
			Static []struct {
				Targets []string          `yaml:"targets"`
				Labels  map[string]string `yaml:"labels"`
			} `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
		Rules []string `yaml:"rule_files"`
	}
	must.Do(t, ReadYAML(&config, "deploy", "prometheus", "prometheus.yml"))
	scraped := map[string]string{}
	for _, job := range config.Scrape {
		for _, static := range job.Static {
			if job.Job == "stillhere" {
				scraped[static.Labels["role"]] = static.Targets[0]
			}
		}
	}
	for name, s := range c.Services {
		admin := Value(s, "STILLHERE_ADMIN")
		if admin == "" {
			continue
		}
		_, port, err := net.SplitHostPort(admin)
		must.Do(t, err)
		if scraped[name] != net.JoinHostPort(name, port) {
			t.Errorf("%s has its admin port at %s and is scraped at %q", name, port, scraped[name])
		}
		delete(scraped, name)
	}
	if len(scraped) > 0 {
		t.Errorf("these are scraped and are no services: %v", scraped)
	}
	prometheus := c.Services["prometheus"]
	if !slices.Contains(prometheus.Command, "--config.file=/etc/prometheus/prometheus.yml") ||
		!mounts(t, prometheus, "deploy/prometheus", "/etc/prometheus") {
		t.Errorf("Prometheus does not read deploy/prometheus/prometheus.yml: %v %v", prometheus.Command, prometheus.Volumes)
	}
	for _, rules := range config.Rules {
		if found, err := filepath.Glob(filepath.Join(Root(), "deploy", "prometheus", rules)); err != nil || len(found) == 0 {
			t.Errorf("there are no rules %s", rules)
		}
	}
}
