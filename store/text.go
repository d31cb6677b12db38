package store

import "strings"

// Printable returns an error text of a broker as text that all databases can hold.
func Printable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
