package main

import (
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	t.Parallel()
	const in = `{"Action":"run","Package":"example.com/broker/kafka","Test":"TestContract/Nothing_is_lost"}
{"Action":"pass","Package":"example.com/broker/kafka","Test":"TestContract/Nothing_is_lost"}
{"Action":"skip","Package":"example.com/broker/gochannel","Test":"TestContract/Nothing_is_lost"}
{"Action":"fail","Package":"example.com/broker/rabbitmq","Test":"TestContract/Nothing_is_lost"}
{"Action":"pass","Package":"example.com/broker/rabbitmq","Test":"TestWatermill/Topic/keyed=true"}
{"Action":"pass","Package":"example.com/broker/rabbitmq","Test":"TestWatermill/Topic"}
{"Action":"pass","Package":"example.com/broker/rabbitmq","Test":"TestOther/Topic"}
{"Action":"pass","Package":"example.com/broker/rabbitmq"}
`
	table, err := read(strings.NewReader(in))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := table.write(&out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{"| Nothing is lost | – |  |  |  | ✓ | **✗** |  |", "| Watermill: Topic |  |  |  |  |  | ✓ |  |"}
	if len(lines) != 4 || lines[2] != want[0] || lines[3] != want[1] {
		t.Errorf("table:\n%s", out.String())
	}
	for _, wrong := range []string{"", "ok  example.com", `{"Action":"pass","Test":"TestOther"}`} {
		if _, err := read(strings.NewReader(wrong)); err == nil {
			t.Errorf("%q makes a table", wrong)
		}
	}
}
