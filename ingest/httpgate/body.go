package httpgate

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

// format is the format of a body.
type format int

const (
	jsonFormat format = iota
	protobufFormat
)

// formatOf reads the Content-Type. The defaults of curl -d and of scripts count as JSON.
func formatOf(r *http.Request) (format, error) {
	header := r.Header.Get("Content-Type")
	kind, _, err := mime.ParseMediaType(header)
	switch {
	case header == "":
		return jsonFormat, nil
	case err != nil:
	case isProtobuf(kind):
		return protobufFormat, nil
	case web.IsJSON(kind):
		return jsonFormat, nil
	}
	return 0, web.Refuse(http.StatusUnsupportedMediaType, "unsupported_media_type", "Content-Type",
		"must be application/json or application/protobuf")
}

func isProtobuf(kind string) bool {
	return kind == "application/protobuf" || kind == "application/x-protobuf"
}

// sender is the caller whose incomplete bodies are counted together. Such bodies take no slot, so a
// slow sender keeps no other caller out. Without authentication no sender is known, and only the
// process's limit on connections applies.
type sender struct {
	known   bool
	user    schemas.UserID
	gateway schemas.GatewayID
	tenant  string // of the gateway
}

func senderOf(caller *ingest.Caller) sender {
	if caller == nil {
		return sender{}
	}
	return sender{true, caller.User, caller.Gateway, caller.Tenant}
}

// readBody reads a body of at most limit bytes, before and after decompression.
func (g *Gate) readBody(w http.ResponseWriter, r *http.Request, limit int) ([]byte, error) {
	who := senderOf(ingest.CallerOf(r.Context()))
	if !g.incomplete.Take(who) {
		return nil, web.RefuseFor(time.Second, http.StatusTooManyRequests, web.TooMany, "body",
			"has to wait: "+strconv.Itoa(g.incomplete.Most())+" bodies of this caller have not arrived in full")
	}
	defer g.incomplete.Give(who)
	body, err := web.ReadBody(w, r, limit, g.cfg.HTTP.BodyTimeout, tooLong(limit))
	if err != nil {
		return nil, err
	}
	return g.decompress(r.Header.Get("Content-Encoding"), body, limit)
}

func tooLong(limit int) error {
	return web.Refuse(http.StatusRequestEntityTooLarge, web.TooLarge, "body",
		"must have at most "+strconv.Itoa(limit)+" bytes, also after decompression")
}

func (g *Gate) decompress(encoding string, body []byte, limit int) ([]byte, error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return body, nil
	case "gzip":
		return gunzip(body, limit)
	case "zstd":
		plain, err := g.zstd.DecodeAll(body, nil)
		switch {
		case errors.Is(err, zstd.ErrDecoderSizeExceeded), errors.Is(err, zstd.ErrWindowSizeExceeded),
			len(plain) > limit:
			return nil, tooLong(limit)
		case err != nil:
			return nil, broken("zstd")
		}
		return plain, nil
	}
	return nil, web.Refuse(http.StatusUnsupportedMediaType, "unsupported_encoding", "Content-Encoding",
		"must be gzip or zstd")
}

func broken(encoding string) error {
	return web.Refuse(http.StatusBadRequest, web.Malformed, "body", "is not valid "+encoding)
}

// gzipReaders are *gzip.Reader, whose tables are larger than most bodies.
var gzipReaders sync.Pool

// gunzip returns at most limit bytes, and fails early if the trailer says that there are more.
func gunzip(body []byte, limit int) ([]byte, error) {
	packed := bytes.NewReader(body)
	reader, known := gzipReaders.Get().(*gzip.Reader)
	if !known {
		reader = new(gzip.Reader)
	}
	defer gzipReaders.Put(reader)
	if reader.Reset(packed) != nil {
		return nil, broken("gzip")
	}
	// RFC 1952, section 2.3.1: the last four bytes are the plain length of the last member.
	length := int64(binary.LittleEndian.Uint32(body[len(body)-4:]))
	if length > int64(limit) {
		return nil, tooLong(limit)
	}
	var plain bytes.Buffer
	plain.Grow(int(length) + bytes.MinRead)
	_, err := plain.ReadFrom(io.LimitReader(reader, int64(limit)+1))
	switch {
	case err != nil:
		return nil, broken("gzip")
	case plain.Len() > limit:
		return nil, tooLong(limit)
	}
	return plain.Bytes(), nil
}
