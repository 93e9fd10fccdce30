package replay

import (
	"bytes"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

//go:embed testdata/read_parquet.py
var readParquet []byte

// TestDuckDBAndPyarrowReadParquetFiles needs a Python that has both: python3, or
// the one that STILLHERE_TEST_PYTHON names.
func TestEveryColumnOfAParquetFileIsCompressed(t *testing.T) {
	t.Parallel()
	changes := entries(7, 50, 3000)
	var stretches, states bytes.Buffer
	s := SessionWriter(IDs, Parquet, &stretches)
	must.Do(t, s.Write(&Session{User: 5, Kind: 1, Start: changes[0].At, End: changes[9].At}))
	must.Do(t, s.Close())
	w := States(Parquet, &states)
	must.Do(t, w.Write(&changes[3]))
	must.Do(t, w.Close())
	for name, content := range map[string][]byte{"changes": written(t, Parquet, changes), "sessions": stretches.Bytes(), "states": states.Bytes()} {
		file := must.Get(parquet.OpenFile(bytes.NewReader(content), int64(len(content))))(t)
		for _, column := range file.Metadata().RowGroups[0].Columns {
			if column.MetaData.Codec != format.Zstd {
				t.Errorf("%s: the column %s is %s", name, column.MetaData.PathInSchema, column.MetaData.Codec)
			}
		}
	}
}

func TestDuckDBAndPyarrowReadParquetFiles(t *testing.T) {
	t.Parallel()
	python := os.Getenv("STILLHERE_TEST_PYTHON")
	if python == "" {
		python = "python3"
	}
	if err := exec.Command(python, "-c", "import duckdb, pyarrow.parquet").Run(); err != nil {
		t.Skipf("no Python with duckdb and pyarrow (%v): name one in STILLHERE_TEST_PYTHON", err)
	}
	dir := t.TempDir()
	changes := entries(7, 50, 3000)
	changes[17].Device, changes[17].LastSeen, changes[17].LastActive, changes[17].Kinds = 0, 0, 0, 0
	for _, kind := range []Format{Parquet, CSV, JSONL} {
		must.Do(t, os.WriteFile(filepath.Join(dir, "changes."+string(kind)), written(t, kind, changes), 0o600))
	}
	var stretches, states bytes.Buffer
	s := SessionWriter(IDs, Parquet, &stretches)
	must.Do(t, s.Write(&Session{User: 5, Kind: 1, Start: changes[0].At, End: changes[9].At, Open: true}))
	must.Do(t, s.Close())
	must.Do(t, os.WriteFile(filepath.Join(dir, "sessions.parquet"), stretches.Bytes(), 0o600))
	w := States(Parquet, &states)
	must.Do(t, w.Write(&changes[3]))
	must.Do(t, w.Close())
	must.Do(t, os.WriteFile(filepath.Join(dir, "states.parquet"), states.Bytes(), 0o600))

	command := exec.Command(python, "-", dir)
	command.Stdin = bytes.NewReader(readParquet)
	out, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "all the same") {
		t.Errorf("%v: %s", err, out)
	}
}
