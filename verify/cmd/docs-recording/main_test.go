package main

import (
	"bytes"
	"html"
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestRecordingIsOfTheREADME compares the commands of the picture with those of the page
// that shows it.
func TestRecordingIsOfTheREADME(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	picture, err := os.ReadFile("../../../docs/images/terminal.svg")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, command := range regexp.MustCompile(`<text class="command"[^>]*>\$ ([^<]*)<`).FindAllSubmatch(picture, -1) {
		got = append(got, html.UnescapeString(string(command[1])))
	}
	if want := commandsOf(page); len(want) != 2 || !slices.Equal(got, want) {
		t.Errorf("recorded are %q, the page has %q: task docs:recording", got, want)
	}
	if !bytes.Contains(page, []byte("docs/images/terminal.svg")) || !bytes.Contains(picture, []byte(">reached ")) {
		t.Error("the page does not show the picture, or no timer is reached in it")
	}
	if lines := bytes.Count(page, []byte("\n")); lines > 150 {
		t.Errorf("README.md has %d lines, more than 150", lines)
	}
}
