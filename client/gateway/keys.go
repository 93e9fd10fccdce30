package gateway

import (
	"errors"
	"time"

	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/schemas"
)

// keysEvery is how often Config.KeyFile is read.
const keysEvery = 10 * time.Second

// keys sign the frames of the gateway; nil: it has no key.
func (c Config) keys() (keys *signing.Keys, err error) {
	var key signing.GatewayKey
	switch {
	case c.Key == "" && c.KeyFile == "":
		return nil, nil
	case c.Key != "" && c.KeyFile != "":
		err = errors.New("must not be set together with key_file")
	case c.KeyFile != "":
		keys, key, err = signing.OpenGateway(c.KeyFile)
	default:
		if key, err = signing.ParseGatewayKey(c.Key); err == nil {
			keys = signing.OfGateway(key)
		}
	}
	if err == nil && key.Gateway != c.ID {
		err = errors.New("is the key of gateway " + string(key.Gateway))
	}
	if err != nil {
		return nil, schemas.Invalid("gateway.key", err.Error())
	}
	return keys, nil
}
