package manifests

import (
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
)

func compose(t *testing.T) *Compose {
	t.Helper()
	c, err := ReadCompose()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// oneShot services end by themselves.
var oneShot = []string{"topics", "migrate", "follows"}

func TestEveryImageIsPinned(t *testing.T) {
	t.Parallel()
	pinned := regexp.MustCompile(`^[a-z0-9./-]+:(v?\d+\.\d+(\.\d+)?(-[a-z0-9.]+)?|dev)(@sha256:[0-9a-f]{64})?$`)
	for name, s := range compose(t).Services {
		if !pinned.MatchString(s.Image) || strings.HasSuffix(s.Image, ":dev") != s.Ours() {
			t.Errorf("%s: the image %q is not named with a version of its own", name, s.Image)
		}
		if s.Ours() && (s.Build == nil || s.Build.Dockerfile != "deploy/docker/Dockerfile" || s.Build.Context != ".") {
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
		if limits.CPUs == "" || limits.Memory == "" || limits.Pids == 0 {
			t.Errorf("%s: has no limits of CPU, memory and processes: %+v", name, limits)
		}
		if s.Logging["options"] == nil {
			t.Errorf("%s: its logs may fill the disk", name)
		}
		if limit := s.Environment["GOMEMLIMIT"]; limit != "" && mebibytes(t, limit) > mebibytes(t, limits.Memory)*9/10 {
			t.Errorf("%s: GOMEMLIMIT %s leaves nothing of %s for what is not heap", name, limit, limits.Memory)
		}
	}
}

func mebibytes(t *testing.T, text string) int {
	t.Helper()
	digits := strings.TrimRight(text, "BGMi")
	n, err := strconv.Atoi(digits)
	if err != nil {
		t.Fatalf("%q is not an amount of memory", text)
	}
	if strings.HasPrefix(text[len(digits):], "G") {
		n *= 1024
	}
	return n
}

func TestPortsArePublishedOnTheLoopbackAlone(t *testing.T) {
	t.Parallel()
	taken := map[string]string{}
	for name, s := range compose(t).Services {
		for _, port := range s.Ports {
			parts := strings.Split(port, ":")
			if len(parts) != 3 || parts[0] != "127.0.0.1" {
				t.Errorf("%s: %s can be reached from other machines", name, port)
				continue
			}
			if other := taken[parts[1]]; other != "" {
				t.Errorf("%s and %s both want port %s", name, other, parts[1])
			}
			taken[parts[1]] = name
			if listen := s.Environment["STILLHERE_LISTEN"]; s.Ours() && !strings.HasSuffix(listen, ":"+parts[2]) {
				t.Errorf("%s: port %s is published but it listens at %q", name, parts[2], listen)
			}
		}
		if s.Environment["STILLHERE_ALLOW_UNAUTHENTICATED"] == "true" && len(s.Ports) == 0 {
			t.Errorf("%s: opens doors that nobody can reach", name)
		}
	}
}

func TestEverythingMountedIsThere(t *testing.T) {
	t.Parallel()
	c := compose(t)
	used := map[string]bool{}
	for name, s := range c.Services {
		for _, mount := range s.Volumes {
			parts := strings.Split(mount, ":")
			source, target := parts[0], parts[1]
			if !strings.HasPrefix(source, ".") {
				used[source] = true
				if _, there := c.Volumes[source]; !there {
					t.Errorf("%s: there is no volume %s", name, source)
				}
				continue
			}
			if _, err := os.Stat(filepath.Join(Root(), source)); err != nil || len(parts) != 3 || parts[2] != "ro" {
				t.Errorf("%s: %s must be in the repository and mounted read-only (%v)", name, mount, err)
			}
			if !strings.HasPrefix(target, "/") {
				t.Errorf("%s: %s is mounted nowhere", name, mount)
			}
		}
	}
	for volume := range c.Volumes {
		if !used[volume] {
			t.Errorf("nobody uses the volume %s", volume)
		}
	}
	if mounts := c.Services["postgres"].Volumes; !slices.Contains(mounts, "postgres-data:/var/lib/postgresql") {
		t.Errorf("Postgres 18 keeps its data below /var/lib/postgresql, not in %v", mounts)
	}
	kafka := c.Services["kafka"]
	if dir := kafka.Environment["KAFKA_LOG_DIRS"]; !slices.Contains(kafka.Volumes, "kafka-data:"+dir) {
		t.Errorf("Kafka keeps its data in %s, which is in no volume of %v", dir, kafka.Volumes)
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
			case dependency.Condition == "service_healthy" && (other.Healthcheck.Disable || len(other.Healthcheck.Test) == 0):
				t.Errorf("%s waits for the health of %s, which has no check", name, on)
			case dependency.Condition == "service_completed_successfully" && !slices.Contains(oneShot, on):
				t.Errorf("%s waits for the end of %s, which does not end", name, on)
			case dependency.Condition == "":
				t.Errorf("%s does not say what it waits for at %s", name, on)
			}
		}
		for setting, server := range map[string]string{"STILLHERE_KAFKA_BROKERS": "kafka", "STILLHERE_REDIS": "redis", "STILLHERE_POSTGRES": "postgres"} {
			if s.Environment[setting] != "" && !waits(c, name, server, 5) {
				t.Errorf("%s uses %s and does not wait for it", name, server)
			}
		}
		if s.Ours() && len(s.Profiles) == 0 && !slices.Contains(oneShot, name) && !slices.Equal(s.Healthcheck.Test, []string{"CMD", "/stillhere", "health", "--ready"}) {
			t.Errorf("%s: its health is asked by %v", name, s.Healthcheck.Test)
		}
		if slices.Contains(oneShot, name) != strings.HasPrefix(s.Restart, "on-failure") {
			t.Errorf("%s: restart is %q", name, s.Restart)
		}
	}
}

// waits tells whether a service starts after another, directly or not.
func waits(c *Compose, name, server string, depth int) bool {
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
	kafka, postgres := c.Services["kafka"].Environment, c.Services["postgres"].Environment
	instances := map[string]string{}
	for name, s := range c.Services {
		if !s.Ours() {
			continue
		}
		if brokers := s.Environment["STILLHERE_KAFKA_BROKERS"]; brokers != "" && !strings.Contains(kafka["KAFKA_ADVERTISED_LISTENERS"], "://"+brokers) {
			t.Errorf("%s looks for Kafka at %s, which advertises %s", name, brokers, kafka["KAFKA_ADVERTISED_LISTENERS"])
		}
		if redis := s.Environment["STILLHERE_REDIS"]; redis != "" && redis != "redis:6379" {
			t.Errorf("%s looks for Redis at %s", name, redis)
		}
		if text := s.Environment["STILLHERE_POSTGRES"]; text != "" {
			at, err := url.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			password, _ := at.User.Password()
			if at.Host != "postgres:5432" || at.User.Username() != postgres["POSTGRES_USER"] || password != postgres["POSTGRES_PASSWORD"] || at.Path != "/"+postgres["POSTGRES_DB"] {
				t.Errorf("%s: %s is not what the service postgres has: %v", name, text, postgres)
			}
		}
		if text := s.Environment["STILLHERE_URL"]; text != "" {
			at, err := url.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if listen := c.Services[at.Hostname()].Environment["STILLHERE_LISTEN"]; !strings.HasSuffix(listen, ":"+at.Port()) {
				t.Errorf("%s looks for %s, which listens at %q", name, text, listen)
			}
		}
		if instance := s.Environment["STILLHERE_INSTANCE"]; instance != "" {
			if other := instances[instance]; other != "" {
				t.Errorf("%s and %s are both called %s: they would fence each other", name, other, instance)
			}
			instances[instance] = name
		} else if s.Environment["STILLHERE_ADMIN"] != "" {
			t.Errorf("%s has no name that stays the same when its container is made anew", name)
		}
		if grace, err := time.ParseDuration(s.StopGracePeriod); err != nil || grace < 40*time.Second {
			t.Errorf("%s: is killed after %s, before it has finished what it holds", name, s.StopGracePeriod)
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
	if err := ReadYAML(&config, "deploy", "prometheus", "prometheus.yml"); err != nil {
		t.Fatal(err)
	}
	scraped := map[string]string{}
	for _, job := range config.Scrape {
		for _, static := range job.Static {
			if job.Job == "stillhere" {
				scraped[static.Labels["role"]] = static.Targets[0]
			}
		}
	}
	for name, s := range c.Services {
		admin := s.Environment["STILLHERE_ADMIN"]
		if admin == "" {
			continue
		}
		_, port, err := net.SplitHostPort(admin)
		if err != nil {
			t.Fatal(err)
		}
		if scraped[name] != net.JoinHostPort(name, port) {
			t.Errorf("%s has its admin port at %s and is scraped at %q", name, port, scraped[name])
		}
		delete(scraped, name)
	}
	if len(scraped) > 0 {
		t.Errorf("these are scraped and are no services: %v", scraped)
	}
	prometheus := c.Services["prometheus"]
	if !slices.Contains(prometheus.Command, "--config.file=/etc/prometheus/prometheus.yml") || !slices.Contains(prometheus.Volumes, "./deploy/prometheus:/etc/prometheus:ro") {
		t.Errorf("Prometheus does not read deploy/prometheus/prometheus.yml: %v %v", prometheus.Command, prometheus.Volumes)
	}
	for _, rules := range config.Rules {
		if found, err := filepath.Glob(filepath.Join(Root(), "deploy", "prometheus", rules)); err != nil || len(found) == 0 {
			t.Errorf("there are no rules %s", rules)
		}
	}
}
