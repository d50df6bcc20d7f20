"""The notes of the page on unequal work: what its rows rest on, and what was tried."""

TRIED = """
## What the rows of Figure 5 rest on

Claims, measures, data sets and the ten seeds were fixed before these runs. FedNova ends above FedAvg and FedProx on
all ten data sets in all three settings, by 2 to 13 points, and gets to FedAvg's last accuracy sooner on all of them.
FedAvg and FedProx are level. Before the first decay, in round 50, curves of sampled rounds are unsteady, FedNova's
too: with drawn epochs its mean falls to FedAvg's in rounds 36 and 38. FedAvg's rates are those of the best test
accuracy, up to 5.12 (no. 25), with training losses of up to 13 at the end; FedNova has the same. They were chosen on
the test sets that are judged, as in the paper, by runs with other seeds: that favours FedAvg and FedProx. FedProx has
the largest rate below its bound 1/μ in 7 of 30 choices: 0.8.

Under sampling the paper's Algorithm 1 has weights and τ_eff of the sampled, and so have these rows; its footnote on
sampling has weights p_i N/q, and its proof a constant τ_eff. With those two, FedNova's default here, FedNova ends
half a point higher.

## Proximal clients

The printed μ, 0.005 and 0.001, were tuned for CIFAR-10. On synthetic data they change nothing: rows at them, judged
here before, counted plain SGD a second time, and τ_eff = Σ p K could not act either (its +5 points were contradicted,
by +0.45 and +0.09). At μ = 1 both act, on the data sets of Figure 5: FedNova-prox is ahead on all ten, by 2 to 11
points; the gain of τ_eff alone, 5.4 and 4.7 points on average, lies between -7 and +10 and is undecided as a size of
5. Rates are constant there, since decayed ones would change α = ημ, and with it the weights a_i, from round to round.

## What the rows of Figure 6 on synthetic data rest on

With FedAvg's rate FedNova ends 1 to 12 points above FedAvg on all ten data sets, except with momentum and E = 2: 24
points below on no. 14 and 4 on no. 16. But it is not steady there: on no. 14 it falls by 66 to 71 points in the
course of all four rows, on no. 16 by 30 in those with momentum, and most are back when the run ends. Had the runs
ended after 76 to 88 rounds, all four rows would be undecided, because of no. 14 (means of 1 to 8 points, p 0.03 to 0.9
before Holm); after 96 and 100 they are as above. At its own rate it falls by 33 points on no.
11 (momentum, drawn epochs, rounds 4 to 12) and by 17 on no. 16, else by at most 8, and is ahead of FedAvg at every
evaluation from round 60 on.

In no. 14 and 16 one client has more than half of the data (74 and 56 %) and takes most of the steps; so it has in no.
1 and 6 of the first ten, where FedNova was behind too, and in no. 5 (54 %), where it was 7 to 8 points ahead. On no.
14 with momentum and E = 2, in the tuning runs, FedAvg has 89.2 % at rate 0.005 and 89.6 % at 0.02, FedNova 87.0 and
74.2 %. FedNova scales the normalised updates of all clients by τ_eff, which grows with that client's steps, and its
theory asks for rates below 1/(2 τ_eff L); that this is the cause was not tested.

Half the rounds is contradicted because fewer are enough. Steps 2.5 times as long without momentum gain nothing on
average; against them hybrid momentum is 5 to 6 points ahead on no. 14 and 16 and within 1.1 points on the others.
Variance reduction, ahead on the first ten data sets, is undecided on these.

## What was tried

Every seed of synthetic data is another data set, and the best rates of one method differ between them by factors of 4
to 4,000. On no. 0 to 9 three protocols were tried in turn. A fixed rate of 0.001, at which both methods were stable:
FedNova 6 to 9 points above FedAvg (the picture of fixed rates, and rows at them, are these data sets). Rates
tuned on four other data sets: all claims undecided, FedNova at its own rate between 3.4 points below FedAvg and 0.3
above. Rates tuned on each of them, as the paper tunes on the data that it judges, from 0.0003 up (at first from
0.005, where two choices for FedNova were unstable): with FedAvg's rate all four rows and FedNova-prox undecided,
FedNova was 18 to 26 points behind on no. 1 and up to 9 on no. 6 (without no. 1 the rows with SGD would have been
reproduced, those with momentum not); each at its own rate FedNova 6 to 8 points above; variance reduction above
FedNova. (FedNova-prox is the row at the printed μ.)

This third protocol was kept, with two tuning runs for each rate instead of one (seeds 1000 and 1001: other initial
models and batches, the same test set), and judged on ten data sets that nobody had looked at, no. 10 to 19. On all
twenty together the rows with SGD hold, those with momentum do not.

A best rate at an end of the grid adds the next; one of 80 is at the end after three more: FedAvg, SGD, E = 2 on no.
13, 20.5, a thousand times the paper's rate for 1.1 points on the tuning runs. There training losses end at 56 to 120,
which is the large mean and spread of the rows with SGD or proximal clients and E = 2.

## Digits and Fashion-MNIST

On digits both methods gain from tuning and are level: one of the 360 test images is 0.3 points, about as much as lies
between them.

Fashion-MNIST has ten seeds, and rates tuned on two others; six of the ten were judged before the other four were run,
and at fixed rates five, with the same verdicts. With FedAvg's rate FedNova is 0.4 points above FedAvg at plain SGD
and E = 2, and 1 to 7 points below, and unsteady, with momentum or drawn epochs; at its own rate, a quarter to half of
FedAvg's with momentum, it stays below. A guess, not tested: these clients nearly fit their data in two epochs, so
that their updates no longer grow with their steps. FedNova, which divides by steps and multiplies by τ_eff, then
takes 1.3 to 1.8 times their mean (16 Σ p², the first four splits).

A public re-implementation of Table 1 (Flower) has gains of 1.5 to 6.2 points where the paper has 5.6 to 9.7.
"""
