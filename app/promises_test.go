package app_test

import (
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var update = flag.Bool("update", false, "write the promises of docs/reliability.md")

// promises are those of the service. Each has tests that fail when it does not hold: a
// folder, and the name of a test function without "Test", or a case of a suite in quotes.
var promises = []struct {
	id, says string
	tests    []string
}{
	{"I1", "No accepted timer is lost: each key ends with an event, a cancellation, or a dead letter that names it.", []string{
		"app AnyCallMayFail", "app Invariants", "verify/crash ServiceKeepsItsPromises", "verify/crash ServiceSurvivesDeathAtEachStep",
		"verify/crash InstancesKeepTheirPromises", "verify/power ServiceOutlivesPowerCuts", "broker/brokertest \"A server that restarts under load loses nothing\"",
	}},
	{"I2", "A timer is never early by the service's clock.", []string{
		"app Invariants", "poller NeverEarlyByAPartOfAMillisecond", "poller Guard", "poller ClockThatJumpsDuringAPoll", "timer RoundingIsNeverEarly",
		"store/storetest \"Reach while more is due than a batch: nothing early\"",
	}},
	{"I3", "An event comes twice only around a crash or an error of the broker.", []string{
		"app CleanStopDeliversNothingTwice", "outbox WhateverFails", "outbox WhatIsBeingDeletedIsNotPublishedAgain", "app InstancesOnOneDatabase",
	}},
	{"I4", "An event keeps its id whenever it is sent, and events of different versions of a timer have different ids.", []string{
		"envelope EventIDIsTheSameAtEveryAttempt", "envelope GenerationsNeverShareAnID", "envelope AttemptsDifferInReachedAtAndTimestampOnly", "app Recover",
	}},
	{"I5", "Nothing is invented: the key, the due time and the correlation of an event are those of an accepted command.", []string{
		"app Invariants", "handlers OnlyCorrelationAndTraceCrossOver", "outbox AppendWritesWhatConsumersGet", "broker/nats ForeignRollupPurgesNothing", "verify/poison PoisonHarmsNobody",
	}},
	{"I6", "The newest command wins, in whatever order and however often commands arrive.", []string{
		"timer VersionsAreInOneOrder", "app AScheduleThatWaitsIsCanceled", "store/sqlite AnyMixOfTransactions", "store/postgres AnyMixOfTransactions",
		"broker/brokertest \"In any order of arrival, with repeats and nacks, the newest version of each key wins\"",
	}},
	{"I7", "At most one version of a timer fires.", []string{
		"app Invariants", "store/storetest \"Reach by both at once: each timer to exactly one\"", "app OnDueTxTakesEffectOnce",
	}},
	{"I8", "A tenant sees nothing of another one, in rows, topics, dead letters and answers.", []string{
		"admin NoRouteShowsOtherTenants", "admin NoEventTellsOfOtherTenants", "verify/poison TopicsDecideWhoseDeadLettersAre", "store/storetest \"Tenants with the same service call are apart\"",
	}},
	{"I9", "What has fired stays fired.", []string{"timer Status", "store/storetest \"Reach marks for good: nothing comes twice\"", "app RecoversAnOlderCopy"}},
	{"I10", "A timer is marked and its event stored in one transaction.", []string{
		"store/storetest \"Update commits Reach and Emit together\"", "store/storetest \"Update leaves no trace when fn fails\"", "app AnyCallMayFail",
	}},
	{"I11", "A command is acked only when its effect is durable.", []string{"handlers NothingIsAckedBeforeTheCommit", "handlers DeadLetterIsPublishedBeforeTheAck", "verify/power ServiceOutlivesPowerCuts"}},
	{"I12", "Timers are on time, and an outage is made up for at full speed.", []string{
		"app HoursOfTimersWithoutLateness", "poller FiresAtTheDueTime", "app ForeignCommitsAreOnTime", "verify/faults BrokerIsUnreachable",
	}},
	{"I13", "Invalid messages delay good ones by at most a second.", []string{"verify/poison PoisonHarmsNobody", "broker/brokertest \"Hostile messages stop no good ones\""}},
	{"I14", "Tenants share the firing equally.", []string{
		"store/storetest \"Reach while more is due than a batch: tenants share equally\"", "store/storetest \"Reach while more is due than a batch: a great tenant delays no small one\"",
		"app ATenantOverItsQuotaDelaysNoOtherTenant",
	}},
	{"I15", "When the service can't keep its first promise, it stops acking, says so within two seconds, and drops nothing.", []string{
		"handlers FatalEndsTheIntake", "poller FatalStoreEndsThePoller", "outbox FatalStoreEndsTheForwarder", "verify/faults ReadyzIsRedWhileSomethingIsBroken", "verify/faults FileIsTakenAway",
	}},
	{"I16", "No secret is shown in logs, errors, metrics or dead letters.", []string{"config SecretIsNeverPrinted", "config MistakesShowNoSecret", "store/postgres NoErrorHasTheURL"}},
	{"I17", "A failure stays one: what happens to a message, topic, partition or tenant delays, repeats and loses nothing of another.", []string{
		"outbox TopicThatFailsIsServedWhenItIsBack", "outbox PartitionThatFailsDelaysAndRepeatsNoOther", "handlers OneThatFailsFailsAlone", "app MiddlewareThatFailsDelaysNoOther", "app DeadLettersThatAreDeniedWait", "app ATenantAtItsBound", "store LockedCommandFailsAlone", "store/storetest \"Commands: what breaks a rule of the schema is refused by its name, and nothing else\"",
		"broker/kafka PartitionThatFailsFailsAlone", "broker/rabbitmq QueueThatIsFullRepeatsNothingOfOthers", "broker/nats OneRefusedMessageFailsAlone",
		"broker/brokertest \"A topic that fails for now changes no result of another\"",
	}},
	{"I18", "A database that was lost or rolled back is noticed before a command is taken, and made whole from what the broker has.", []string{
		"app Recover", "app RecoversADatabaseThatWasDeleted", "store/postgres AnInstanceThatWroteNothingNoticesAnOlderDatabase", "verify/crash ServiceRecoversWhatWasLost",
	}},
	{"I19", "After a start, and after the broker or the database was away, nothing fires before the commands that waited were read, for at most `catch_up_timeout`.", []string{
		"app NothingFiresWhileTheBrokerIsAway", "app CatchesUpAfterEachReason", "app CatchUpTakesNoLongerThanItsTimeout",
		"broker/brokertest \"CatchUp returns when the backlog was delivered and acked, at once if nothing waits\"",
	}},
	{"I20", "A limit that normal use can reach is measured, said before it is reached, and red when it is.", []string{
		"broker/nats FullStreamIsRed", "broker/nats ConsumedMessagesDoNotFillTheStream", "broker/kafka LogsSayHowFullTheFullestDiskIs", "service HealthNamesALogThatGrows", "store/sqlite FullDiskPasses",
		"app HostileTenantsFillTheInbox", "app MessagesWaitNoLongerThanTheyMay",
	}},
	{"I21", "Nothing is accepted on parts that could drop or give twice in silence.", []string{
		"broker/nats StreamsThatCouldLoseAreNamed", "broker/nats ConsumersThatCouldLoseAreNamed", "broker/kafka SettingsThatCouldLoseMessagesAreRefused", "store/postgres ServerThatLosesCommitsIsRefused",
		"store/postgres ASequenceThatBeginsAgainTakesNoEvent",
	}},
	{"I22", "No two take the timers of one database without one being refused by name, and no instance takes an event that it has no handler or broker for.", []string{
		"store/sqlite OneOwnerAFile", "store/sqlite HostsFileHasOneName", "app InstancesThatBringEventsElsewhere", "app TwoThatStartAtOnce", "app RollingDeploymentOfHandlers",
		"store/postgres UnclaimedEventsHaveNoHandlerAnywhere",
	}},
	{"I23", "With the credentials of a tenant, as the documentation gives them on each broker and over HTTP, nothing of another tenant or of the service can be changed, forged, read, stopped or delayed by more than a second.", []string{
		"verify/poison HostileTenantOnNATS", "verify/poison HostileTenantOnKafka", "verify/poison HostileTenantOnRabbitMQ", "broker/nats ForeignMessageWithOurIDHidesNothing",
		"broker/kafka TopicsByTenantKeepTenantsApart", "broker/rabbitmq TenantsNeitherForgeNorRead", "broker/rabbitmq ProducersCommandTheirTenantAlone",
		"admin TenantTokensAreOfOneTenant", "admin TenantHasItsShareOnly",
	}},
	{"Stop", "A stop takes at most `drain_timeout` and five seconds.", []string{"service StopWhileAnyBrokerHangs", "handlers StopEndsAllWaits", "handlers StopOfAStoreThatHangs", "outbox StopEndsInTime"}},
}

// TestPromisesHaveTests finds the tests of each promise, and compares the table with the page
// that shows it.
func TestPromisesHaveTests(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	table.WriteString("| | promise | tests |\n| --- | --- | --- |\n")
	for _, p := range promises {
		var links []string
		for _, test := range p.tests {
			folder, name, _ := strings.Cut(test, " ")
			file, says := whereIs(t, folder, name)
			if file == "" {
				t.Errorf("%s: there is no test %s in %s", p.id, name, folder)
				continue
			}
			links = append(links, fmt.Sprintf("[%s](../%s)", says, file))
		}
		fmt.Fprintf(&table, "| %s | %s | %s |\n", p.id, p.says, strings.Join(links, "; "))
	}
	const page = "../docs/reliability.md"
	had, err := os.ReadFile(page)
	must(t, err)
	shown := regexp.MustCompile(`(?s)(<!-- promises[^\n]*\n).*(<!-- end of promises)`)
	want := shown.ReplaceAllString(string(had), "${1}\n"+strings.ReplaceAll(table.String(), "$", "$$")+"\n${2}")
	switch {
	case want == string(had):
	case *update:
		must(t, os.WriteFile(page, []byte(want), 0o600))
	default:
		t.Errorf("%s shows other promises: go test ./app -run Promises -update", page)
	}
}

// TestFaultsHaveTests finds each test that docs/faults-we-had.md names in the file that it links.
func TestFaultsHaveTests(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/faults-we-had.md")
	must(t, err)
	named := regexp.MustCompile("\\[(?:`Test(\\w+)`|([^]`]+))\\]\\(\\.\\./([^)]+\\.go)\\)").FindAllStringSubmatch(string(page), -1)
	if len(named) < 100 {
		t.Errorf("the page names %d tests", len(named))
	}
	for _, link := range named {
		name, file := link[1], link[3]
		if name == "" {
			name = `"` + link[2] + `"`
		}
		if found, _ := whereIs(t, path.Dir(file), name); found != file {
			t.Errorf("test %s is not in %s, but in %q", name, file, found)
		}
	}
}

// whereIs returns the file of a test, from the root of the repository, empty if there is none,
// and what its name says.
func whereIs(t *testing.T, folder, name string) (file, says string) {
	t.Helper()
	text := "func Test" + name + "("
	if says = inWords(name); strings.HasPrefix(name, `"`) {
		text, says = name, strings.ReplaceAll(strings.Trim(name, `"`), "|", "\\|")
	}
	files, err := filepath.Glob(filepath.Join("..", folder, "*.go"))
	must(t, err)
	for _, f := range files {
		source, err := os.ReadFile(f)
		must(t, err)
		if filepath.Base(f) != "promises_test.go" && strings.Contains(string(source), text) {
			return filepath.ToSlash(strings.TrimPrefix(f, "../")), says
		}
	}
	return "", says
}

// inWords returns the sentence that a name in mixed caps stands for.
func inWords(name string) string {
	var b strings.Builder
	upper := func(i int) bool { return i == len(name) || unicode.IsUpper(rune(name[i])) }
	for i, r := range name {
		if i > 0 && upper(i) && (!upper(i-1) || !upper(i+1)) {
			b.WriteByte(' ')
			if !upper(i + 1) { // no abbreviation begins
				r = unicode.ToLower(r)
			}
		}
		b.WriteRune(r)
	}
	return b.String()
}
