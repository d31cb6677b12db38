package main

// Runs of quotas.
var keeping = test{"./quota", ".", ""}

// quotas are mutants of what a tenant may have.
var quotas = []mutant{
	{
		"all may wait at the broker", "one tenant over its quota fills what is in flight, and stops all others",
		[]edit{{"quota/waiting.go", "k.opt.Waiting/k.instances()-k.waiting.all", "1<<30"}},
		intake,
	},
	{
		"over quota is dropped", "a command over its quota is acked and lost",
		[]edit{{"handlers/quota.go", "\t\t\t\tmsg.Nack()\n", ""}},
		test{"./app", "^TestInvariantsWithQuotas$", "-rapid.seed=1 -rapid.nofailfile -rapid.shrinktime=1s"},
	},
	{
		"over quota is a healthy store", "a command over its quota lets all go on while the store is down",
		[]edit{{"handlers/middleware.go", "case err == nil && deliveryOf(msg).over != nil:", "case err == nil && deliveryOf(msg).over != nil && h == nil:"}},
		intake,
	},
	{
		"a try is wasted", "a command over its quota takes the one try after a pause, and the intake stays stopped",
		[]edit{{"handlers/middleware.go", "\t\t\th.hold.pass()\n", ""}},
		intake,
	},
	{
		"tokens are lost", "each command that the store fails for takes another token",
		[]edit{{"quota/accept.go", "\t\tg.account.accept.giveBack()\n", ""}},
		keeping,
	},
	{
		"commands on their way are not counted", "many commands at once make more timers than may wait",
		[]edit{{"quota/live.go", "l.counted + l.added + l.reserved", "l.counted + l.added"}},
		keeping,
	},
	{
		"nobody counts again", "who has as many timers as may wait is refused though some have fired",
		[]edit{{"quota/live.go", "(fresh || !l.fewer && age < believed)", "true"}},
		keeping,
	},
	{
		"nobody is held back", "the poller asks the quotas, and fires what is due all the same",
		[]edit{{"poller/poller.go", "allow = p.opt.Quotas.Allowance(now)", "p.opt.Quotas.Allowance(now)"}},
		polling,
	},
	{
		"others wait for who is held back", "while one tenant may not fire, timers of others are late",
		[]edit{{"poller/poller.go", "at, err := p.next(ctx, done.now,", "at, err := p.next(ctx, done.now.Add(time.Hour),"}},
		polling,
	},
	{
		"the poller spins", "while one tenant may not fire, the poller looks again and again",
		[]edit{{"poller/poller.go", "wake{at, earliest}, err", "wake{at, time.Time{}}, err"}},
		polling,
	},
	{
		"the store does not ask", "Reach returns more of a tenant than is allowed",
		[]edit{{"store/sqlite/reach.go", "\t\tif c.left(e.TenantID) <= 0 {", "\t\tif c.left(e.TenantID) <= 0 && c.entries == nil {"}},
		ownFile,
	},
}
