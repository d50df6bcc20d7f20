"""The notes of the page on bits: what its verdicts rest on."""

QUICK = """
## What to make of it

Accuracy at a budget is read on the line between the evaluations around it. (The mean of the evaluations before it,
which was used at first, left an uncompressed method with its first two and was worth up to seven points to FedBACA.)

The paper says of Figures 1 to 4, with a CNN, what is judged here with an MLP in the places of Figures 5 to 12, of
which it has captions only, as it has of Figures 13 to 20; claims are corrected for their number in each of these.

No difference is shown between compression both ways with AA and without: FedBACA less FedBNLACA, whose rule never
fires, each tuned, is -0.30 to +0.49 points in the eight places, all p 0.11 or more (first table). That is not to say
that there is none: on non-iid data, where AA acts in more than half of the uploads, the 95 % intervals reach 1.5
points. The two are as good within 0.5 points only in three places, all iid, where AA acts in 1.7 to 6.1 % of uploads.
On iid data AA passes the line of 1 % of uploads, from which a rule counts as tested, while it acts about once per
client or less: in exactly 20 of 1,200 uploads in every seed on MNIST with all clients, in about 10 of 600 on
Fashion-MNIST with half of them. Notes of such rows say so.

`two_way` sends as much as FedBACA and ends 2.6 to 4.7 points above it on iid data, 0.5 to 3.7 above on the non-iid
splits. Against FedCAMS, iid, it is 0.4 to 1.2 points ahead at under a third of the bytes; non-iid it is 1.1 to 1.7
points behind. On Fashion-MNIST, iid, FedBACA and FedBNLACA at 1/8 end at 74 % untuned, with FedAMS's rate, and at 83 %
tuned.

At ratio 1/128 sixty rounds cost 6.5 MB, 4.1 of them for the 20 first models, which are sent whole. At these bytes 1/8
is in its sixth round, read on the line between its first two evaluations (rounds 4 and 8), and far ahead on iid data,
far behind on non-iid data.

## Rivals of short runs

A rival has settings tuned for about the rounds that the budget leaves it (`tuned for` in the tables): ten for
FedBACA's bytes and for FedACA's uploads, 36 for FedACA's bytes both ways, 22 for FedBACA's seconds; and FedACA,
against FedBACA, 18. The lengths 36 and 18 are tuned where FedACA's rule fires, on non-iid data; time budgets only on
Fashion-MNIST with half of the clients.

These settings are used even where they are a little weaker on the judged seeds than those for sixty rounds: with the
MLP by up to 0.2 points for FedAdam and FedAMS, by more for FedACA (at FedBACA's bytes on MNIST, non-iid, 85.3 against
85.6 %), with the CNN by up to 1.9. Where a short run has the same settings as the one of sixty rounds, the two differ
in the spacing of their evaluations only, by up to 0.4 points at a budget. With the better of the two readings for each
rival no verdict changes but those of Figure 12 (below).

The lengths 18, 22 and 36 were added after rows had been judged with rivals tuned for sixty. Of the ten rows that they
concern (four of FedACA against uncompressed methods, four of FedBACA against FedACA, two on seconds) three went from
reproduced to undecided. FedBACA against FedACA with all clients (Fashion-MNIST) did so for its rival's settings: tuned
for 18 rounds FedACA has 78.2 %, tuned for sixty 76.7. The other two, FedACA on Fashion-MNIST, did not: FedAdam decides
them, and its settings tuned for 36 rounds equal those for 60. What changed is that these runs are evaluated in every
round and not in every fourth, and this spacing decided the rows. FedACA less FedAdam with half of the clients is +0.63
points (p 0.19) evaluated in every round, +0.69 (0.15) in every second, +1.62 (0.014) in every fourth; with all clients
+0.52 (0.018), +0.52 (0.017) and +0.46 (0.0078). On seconds, non-iid, the spacing is all that changed, too, for every
rival (p 0.097 to 0.11, undecided both times).

Figure 12 (Fashion-MNIST, non-iid, all clients): FedNLAA is behind FedAdam with p 0.0156, FedACA ahead of it with
0.0182. Both rows are undecided only because the five claims of the figure are corrected together (Holm: 4 x 0.0156,
then 3 x 0.0182 raised to it; 0.062 both). With FedAdam evaluated in every fourth round, FedACA would be reproduced
(0.031) and FedNLAA contradicted (0.047).

## Bytes to a target

Fashion-MNIST's targets were stated before the runs, those of MNIST (90 % iid, 80 % non-iid) after runs had been made,
before bytes to them were looked at. FedNLAA and FedACA were added to these rows, and MNIST, when FedBACA on
Fashion-MNIST had been judged; so Figures 5, 7 and 11 have more claims to be corrected for. That made FedACA against
FedCAMS on Fashion-MNIST undecided (p 0.039 to 0.065).

A rival's setting that was chosen for several lengths counts once. A method that is evaluated more often appears to
reach the target sooner, since an arrival is seen at the next evaluation. So in every comparison with a rival both
sides are read about as many bytes apart, as far as those of the side that is evaluated less often; rows show a method
as it is read beside its rivals' best settings. (At first rivals alone were read further apart. No verdict differs.)

This rule was made after the runs, when it had been seen that the spacing decides FedNLAA's row (Fashion-MNIST,
non-iid): evaluated in every round FedAdam is at the target after 20.4 MB instead of 27.7, and FedNLAA, which is
evaluated in every fourth, would be contradicted (p 0.0004).

At equal bytes no evaluation is left out: accuracy is read on the line between two evaluations, not at the later of
them. A wider spacing delays nobody there, it makes the reading rougher; so the short runs, evaluated in every round,
tell better what a rival has at the budget. They are also the harder ones for FedACA's claims (above).

## Settings

With the MLP all settings are chosen on Fashion-MNIST with half of the clients, on seeds of their own, and taken over
for MNIST and for all clients, where they are not always the best: on MNIST FedCAMS has 95.6 % with them, iid, and
96.2 % at FedAMS's rate, FedAvg 89.0 % non-iid and 89.9 % at a rate of 1 (both p below 0.001). The ratios 1/32 and
1/128 are not tuned.

Thresholds tried are 0.3 to 1.4 for FedNLAA, 0.5 to 1.4 for FedNLACA and FedBNLACA, 0.3 to 1.5 for AA with compression
and 0.1, 0.3, 0.6 for FedAA, whose best is 0.1, at which it never fires. Methods with NLA chose the smallest,
FedBACA on non-iid data the largest. NLA's stopped at 0.8 until a review, and FedNLACA was not tuned; the choices of the
others stay with larger ones. On iid data FedNLAA is the same at 0.3, 0.5 and 0.8, at which NLA never acts, and 0.5, 2.3
and 3.2 points behind at 1, 1.2 and 1.4 (tuning seeds), FedNLACA 0.0, 1.0 and 1.5, FedBNLACA 0.0, 0.0 and 0.8. On
non-iid data FedNLAA's 0.3 is 2.0 points ahead of 0.5 and 4.3 of the next best, FedNLACA's 0.5 is 0.2 to 1.4 ahead. So
where NLA is *not tested* at the best settings, thresholds at which it acts cost accuracy at equal rounds. AA's were
extended past 1 after the page had them at that end: FedBACA's best are now 1.2 (iid) and 1.5, FedACA's 1.2 on non-iid
data, near or past the distance of orthogonal updates (1.41): 38 to 56 % of the updates are added to the ones before on
non-iid data, up to 6 % on iid data; the margins over smaller thresholds are 0.2 to 0.8 points on the tuning seeds.
All are chosen at equal rounds, which puts skipping at a disadvantage.

Settings tried: FedAvg 3, FedAdam and FedAMS 12 to 16 (12 to 20 for ten rounds), FedCAMS 12 to 16, `two_way` 12 to 20,
FedAA 36 to 48, FedNLAA 72 to 96, FedNLACA and FedBNLACA 80, FedACA 60 to 80 (100 for 18 rounds), FedBACA 80.

## Seeds

The MLP has ten seeds, as all pages have where a run takes less than two minutes. Five were judged first, the other
five were added. With ten seeds nine of the paper's claims were decided that five had left undecided, against the
rivals of that time. On the five added seeds alone five of these nine were decided and four were not, with all means on
the same side as over the ten.

Because the seeds were judged twice, p would have to be below 0.025. Four of the nine had 0.027 to 0.039, all on
Fashion-MNIST, non-iid: FedACA against the uncompressed methods with half of the clients, the same with all clients,
FedACA against FedCAMS with half of the clients (p 0.145 on the added seeds alone), and FedNLAA with all clients, which
was contradicted. All four are undecided now: FedACA's first two because the uncompressed methods are evaluated in
every round, the other two, whose runs are the same as then, because more claims of their figures are corrected
together.

## The small CNN

Server rate, eps and AA's threshold are tuned in every place, on one seed: 18 settings for FedACA and FedBACA and more
beyond an end of their rates, two for FedAvg and six for FedAdam and FedAMS in seven rounds, which are FedBACA's rivals.
b1 is the MLP's. Whole runs of the uncompressed methods and FedNLAA's have settings chosen on Fashion-MNIST with half of
the clients; they are rivals of FedACA and FedNLAA alone.

Before, FedACA and FedBACA had the MLP's eps and b1, and in six of the eight places every method had the settings of
Fashion-MNIST with half of the clients. FedBACA was contradicted on iid data then (72 % where FedAdam and FedAMS have
74), and its model fell apart in other places, where nothing was tested for that. Both were due to these settings: on
iid data eps 1e-7 is the best in every place, at which FedBACA is level with FedAdam and FedAMS with half of the clients
and behind them with all.

On non-iid data most settings that lead after twelve rounds fall apart by the fortieth (on MNIST with half of the
clients the best three went from 75, 74 and 72 % to 15, 79 and 24), so there FedBACA's are all run for 40 rounds. This
rule came after a first choice, the best of three, had been judged: FedBACA then ended at 16 % on MNIST with all clients
(ten seeds), at 79 % on MNIST and 49 % on Fashion-MNIST with half of them. Those runs are not on this page. The rule is
in favour of the paper's claims.

At the best settings AA acts in two places of eight alone, both on Fashion-MNIST, non-iid: with half of the clients in
3.8 % of uploads, with all in half of them. FedACA's best threshold is the smallest everywhere, at which it does not
act, and NLA acts in 0.8 % of uploads at most but on Fashion-MNIST, non-iid, with half of the clients (2.1 %). Rows of
other places are *not tested*, mostly with one to three seeds. What they show is compression alone: FedBACA, whose AA is
silent, has the bytes of seven rounds without compression.

On Fashion-MNIST, non-iid, FedBACA has 52 % with half of the clients at its bytes both ways, the uncompressed methods 43
to 54, and 49 % with all, where they have 56 to 65 (ten seeds; undecided with the first five, p 0.2). Earlier in its
run, below 10 MB, it is ahead with half of the clients (in the picture; not judged, and rivals are tuned for the end).
"""
