"""Private federated learning: what a budget costs in accuracy, and what an attacker finds out.

    python examples/private.py

Sampled rounds with noise for two budgets, a buffered run whose clients take part a limited number of times, and
canaries that attack one of the runs. Needs `pip install 'fedpace[privacy]'`.
"""

from dataclasses import replace

import fedpace
from fedpace.check import Canaries
from fedpace.privacy import ClientDP, calibrated

CLIENTS, ROUNDS, DELTA = 300, 30, 1e-4
task = fedpace.tasks.load("digits", clients=CLIENTS)
fedavg = fedpace.algorithms.fedavg(clients_per_round=100, select="poisson", epochs=5)
fedbuff = fedpace.algorithms.fedbuff(buffer=100, concurrency=100, epochs=5)


def private(algorithm, epsilon, **more):
    """The algorithm with the least noise that keeps the budget."""
    rule = ClientDP(clip=1.0, delta=DELTA, epsilon=epsilon, **more)
    return replace(algorithm, privacy=calibrated(rule, algorithm.pace, CLIENTS, ROUNDS))


def show(name, run):
    spent = "not private" if run.privacy is None else str(run.privacy)
    print(f"{name:24}{run.metrics['accuracy']:6.3f}  {len(run.history):3} steps  {spent}")


show("fedavg", fedpace.simulate(fedavg, task, rounds=ROUNDS, evaluate_every=ROUNDS))
for epsilon in (8.0, 1.0):
    run = fedpace.simulate(private(fedavg, epsilon), task, rounds=ROUNDS, evaluate_every=10)
    show(f"fedavg, epsilon {epsilon:g}", run)
run = fedpace.simulate(private(fedbuff, 16.0, contributions=4), task, rounds=ROUNDS, evaluate_every=1)
show("fedbuff, epsilon 16", run)
print(f"{'':24}stopped: {run.stopped}")

canaries = Canaries(task, length=1.0, count=400)
attacked = replace(
    fedavg,
    pace=replace(fedavg.pace, clients_per_round=None),
    privacy=ClientDP(clip=1.0, noise_multiplier=4.0, delta=DELTA),
)
run = fedpace.simulate(attacked, canaries.task, rounds=2, keep_models=True)
print(f"attack on {run.privacy}: {canaries.audit(run.models, DELTA)}")
