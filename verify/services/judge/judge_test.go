package judge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

// both has both judges judge a text, and checks that they agree. Without Python the first
// judge alone judges it.
func both(t *testing.T, texts ...string) []Verdict {
	t.Helper()
	var files []string
	var firsts []Verdict
	for i, text := range texts {
		v, err := Judge(strings.NewReader(text))
		if err != nil {
			t.Fatalf("history %d: %v\n%s", i, err, text)
		}
		firsts = append(firsts, v)
		files = append(files, filepath.Join(t.TempDir(), "history.jsonl"))
		harness.Must(t, os.WriteFile(files[i], []byte(text), 0o600))
	}
	seconds, err := Second(t.Context(), files...)
	harness.Need(t, err, ErrNoPython)
	for i := range texts {
		if diff := cmp.Diff(firsts[i], seconds[i]); diff != "" {
			t.Errorf("the judges disagree, judge.go (-) and judge.py (+):\n%s\n%s", diff, texts[i])
		}
	}
	return firsts
}

// TestExample judges the example of the page.
func TestExample(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "history.md"))
	harness.Must(t, err)
	found := regexp.MustCompile("(?s)```jsonl\n(.*?)```").FindSubmatch(page)
	if found == nil {
		t.Fatal("docs/history.md has no example")
	}
	got := both(t, string(found[1]))[0]
	want := Verdict{
		Commands: 4, Taken: 4, Events: 2, Faults: 1, LateP50: 1500, LateP99: 1500, LateMax: 1500,
		Lost: []int{}, Early: []int{}, Doubled: []int{}, Superseded: []int{}, Canceled: []int{4}, Invented: []int{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestTwins plants one fault in a history without any: both judges must find it.
func TestTwins(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "clean.jsonl"))
	harness.Must(t, err)
	clean := string(text)
	if v := both(t, clean)[0]; !v.Clean() || v.Events != 7 || v.Repeated != 1 || v.Both != 1 || v.Doubtful != 1 || v.Refused != 1 {
		t.Fatalf("the clean history is judged as %+v", v)
	}
	tests := []struct {
		name     string
		from, to string // the change
		want     string // the breach, as JSON
	}{
		{"an event is missing", `{"kind":"seen","wall":1000011250000,"mono":11250000,"key":"slow","op":12,"id":"s"}` + "\n", "", `"lost":[12]`},
		{"an event is early", `"op":1,"do":"schedule","key":"plain","due":1000003000000`, `"op":1,"do":"schedule","key":"plain","due":1000003002000`, `"early":[1]`},
		{"a repetition has a second id", `"mono":3500000,"key":"plain","op":1,"id":"a"`, `"mono":3500000,"key":"plain","op":1,"id":"z"`, `"doubled":[1]`},
		{"the time before a move fires", `"key":"moved","op":3,"id":"b"`, `"key":"moved","op":2,"id":"b"`, `"superseded":[2]`},
		{"a canceled timer fires", `{"kind":"end"`, `{"kind":"seen","wall":1000029000000,"mono":29000000,"key":"canceled","op":4,"id":"c"}` + "\n" + `{"kind":"end"`, `"canceled":[4]`},
		{"an event is of no command", `{"kind":"end"`, `{"kind":"seen","wall":1000029000000,"mono":29000000,"key":"plain","op":99,"id":"c"}` + "\n" + `{"kind":"end"`, `"invented":[39]`},
		{"an event has the key of another timer", `"key":"moved","op":3,"id":"b"`, `"key":"plain","op":3,"id":"b"`, `"invented":[32]`},
		{"a refused command fires", `{"kind":"end"`, `{"kind":"seen","wall":1000029000000,"mono":29000000,"key":"late","op":9,"id":"c"}` + "\n" + `{"kind":"end"`, `"invented":[39]`},
		{"the wall clock was set", `{"kind":"end","wall":1000030000000`, `{"kind":"end","wall":1000031000000`, `"void":true`},
	}
	for _, test := range tests {
		if strings.Count(clean, test.from) != 1 {
			t.Fatalf("%s: the clean history has not one %s", test.name, test.from)
		}
		got := both(t, strings.Replace(clean, test.from, test.to, 1))[0]
		if got.Clean() {
			t.Errorf("%s: no judge sees it", test.name)
		}
		text, err := json.Marshal(got)
		harness.Must(t, err)
		breaches := regexp.MustCompile(`"void":true|"(lost|early|doubled|superseded|canceled|invented)":\[\d[^]]*\]`).FindAllString(string(text), -1)
		if !slices.Contains(breaches, test.want) {
			t.Errorf("%s: found %v, want %s", test.name, breaches, test.want)
		}
	}
}

// TestRefused gives both judges files that are no histories.
func TestRefused(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "clean.jsonl"))
	harness.Must(t, err)
	first, rest, _ := strings.Cut(string(text), "\n")
	for name, text := range map[string]string{
		"empty":            "",
		"no begin":         rest,
		"no end":           first + "\n",
		"another format":   strings.Replace(string(text), `"format":1`, `"format":2`, 1),
		"unknown kind":     strings.Replace(string(text), `"kind":"healed"`, `"kind":"cured"`, 1),
		"missing field":    strings.Replace(string(text), `,"key":"plain"`, "", 1),
		"answered twice":   strings.Replace(string(text), `"op":1}`, `"op":2}`, 1),
		"not sent":         strings.Replace(string(text), `"op":2}`, `"op":77}`, 1),
		"mono falls":       strings.Replace(string(text), `"mono":3001000`, `"mono":1`, 1),
		"no end of line":   strings.TrimSuffix(string(text), "\n"),
		"number is a text": strings.Replace(string(text), `"mono":3001000`, `"mono":"3001000"`, 1),
	} {
		if _, err := Judge(strings.NewReader(text)); err == nil {
			t.Errorf("%s: judge.go takes it", name)
		}
		file := filepath.Join(t.TempDir(), "history.jsonl")
		harness.Must(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := Second(t.Context(), file)
		if err == nil {
			t.Errorf("%s: judge.py takes it", name)
		}
		if errors.Is(err, ErrNoPython) {
			harness.Need(t, err, ErrNoPython)
		}
	}
}

// TestJudgesAgree draws histories in which anything happens.
func TestJudgesAgree(t *testing.T) {
	t.Parallel()
	var texts []string
	for seed := range uint64(300) {
		texts = append(texts, draw(rand.New(rand.NewPCG(seed, 1))))
	}
	broken := make(map[string]int)
	for _, v := range both(t, texts...) {
		for name, list := range map[string][]int{
			"lost": v.Lost, "early": v.Early, "doubled": v.Doubled, "superseded": v.Superseded, "canceled": v.Canceled, "invented": v.Invented,
		} {
			broken[name] += len(list)
		}
		broken["both"] += v.Both
		broken["stray"] += v.Stray
	}
	for name, n := range broken {
		if n == 0 {
			t.Errorf("no history has the breach %s", name)
		}
	}
}

// draw returns a history of some commands, answers and events without sense.
func draw(r *rand.Rand) string {
	var b bytes.Buffer
	mono := int64(0)
	line := func(kind, format string, args ...any) {
		fmt.Fprintf(&b, `{"kind":%q,"wall":%d,"mono":%d`+format+"}\n", append([]any{kind, 1_000_000_000_000 + mono, mono}, args...)...)
		mono += r.Int64N(400_000)
	}
	line(Begin, `,"format":1,"service":"none"`)
	type state struct {
		key      string
		answered map[string]bool
	}
	var commands []state
	faults := 0
	for range 40 {
		switch r.IntN(8) {
		case 0, 1:
			c := state{string(rune('a' + r.IntN(4))), make(map[string]bool)}
			commands = append(commands, c)
			due := fmt.Sprintf(`,"due":%d`, 1_000_000_000_000+mono+r.Int64N(4_000_000))
			do := []string{Schedule, Move, Cancel}[r.IntN(3)]
			if do == Cancel {
				due = ""
			}
			line(Sent, `,"op":%d,"do":%q,"key":%q%s`, len(commands), do, c.key, due)
		case 2, 3, 4:
			if len(commands) == 0 {
				continue
			}
			op := 1 + r.IntN(len(commands))
			kind := []string{Acked, Acked, Acked, Applied, Refused}[r.IntN(5)]
			pending := ""
			if kind == Acked && r.IntN(3) == 0 {
				pending = `,"pending":true`
			}
			if !commands[op-1].answered[kind] {
				commands[op-1].answered[kind] = true
				line(kind, `,"op":%d%s`, op, pending)
			}
		case 5, 6:
			op := 1 + r.IntN(len(commands)+1)
			key := "a"
			if op <= len(commands) && r.IntN(10) > 0 {
				key = commands[op-1].key
			}
			line(Seen, `,"key":%q,"op":%d,"id":"%d-%d"`, key, op, op, r.IntN(4)/3)
		case 7:
			if faults%2 == 0 {
				line(Fault, `,"n":%d,"what":"something"`, faults/2+1)
			} else {
				line(Healed, `,"n":%d`, faults/2+1)
			}
			faults++
		}
	}
	line(End, "")
	return b.String()
}
