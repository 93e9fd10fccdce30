package client_test

import (
	"fmt"

	"github.com/stillhere/stillhere/client"
)

// Mutual TLS by files, with a token for OAUTHBEARER from a token endpoint.
func ExampleKafka() {
	kafka := client.Kafka{
		Brokers:  []string{"kafka-1:9093", "kafka-2:9093"},
		TLSFiles: &client.TLSFiles{CA: "ca.pem", Cert: "client.pem", Key: "client-key.pem"},
		SASL:     "OAUTHBEARER",
		Token:    client.ClientCredentials("https://login.example.com/token", "presence", "secret", "kafka", nil),
	}
	fmt.Println(kafka.Validate())
	// Output: <nil>
}

func ExampleHTTP_Validate() {
	fmt.Println(client.HTTP{URL: "presence.example.com"}.Validate())
	// Output: http.url: must be http://… or https://… without a query
}
