// Package kafka has tests of the service on Apache Kafka as people run it: three brokers under
// a steady load while an operator or a failure changes the cluster, and one broker with TLS,
// logins and the permissions of the documents. The rules are those of package crash.
package kafka
