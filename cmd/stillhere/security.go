package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/stillhere/stillhere/internal/stream"
)

// security reads what the Kafka flags say of TLS and SASL; nil for plain text.
func (f kafkaFlags) security() (*stream.Security, error) {
	if (f.KafkaTLSCert == "") != (f.KafkaTLSKey == "") {
		return nil, errors.New("--kafka-tls-cert and --kafka-tls-key go together")
	}
	if !f.KafkaTLS && (f.KafkaTLSCA != "" || f.KafkaTLSCert != "") {
		return nil, errors.New("--kafka-tls-ca and --kafka-tls-cert need --kafka-tls")
	}
	if f.KafkaSASL == "" && f.KafkaUser != "" {
		return nil, errors.New("--kafka-user needs --kafka-sasl")
	}
	if !f.KafkaTLS && f.KafkaSASL == "" {
		return nil, nil
	}
	s := &stream.Security{Mechanism: f.KafkaSASL, User: f.KafkaUser, Password: f.KafkaPassword}
	if !f.KafkaTLS {
		return s, nil
	}
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if f.KafkaTLSCA != "" {
		pem, err := os.ReadFile(f.KafkaTLSCA)
		if err != nil {
			return nil, fmt.Errorf("--kafka-tls-ca: %w", err)
		}
		s.TLS.RootCAs = x509.NewCertPool()
		if !s.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--kafka-tls-ca: %s has no certificate", f.KafkaTLSCA)
		}
	}
	if f.KafkaTLSCert != "" {
		if _, err := tls.LoadX509KeyPair(f.KafkaTLSCert, f.KafkaTLSKey); err != nil {
			return nil, fmt.Errorf("--kafka-tls-cert: %w", err)
		}
		// Read anew for every connection, so that a renewed certificate is used.
		s.TLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(f.KafkaTLSCert, f.KafkaTLSKey)
			return &pair, err
		}
	}
	return s, nil
}
