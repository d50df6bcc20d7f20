"""Client timelines: the same eight devices under three pacing rules, as a table and as a plot.

    python examples/timeline.py [PLOT.png]

Synchronous rounds leave fast clients idle. DeFedAvg keeps all clients active: sampling the updates to use (nIID)
wastes some of the work, taking the first to finish (IID) uses all of it, mostly that of fast clients.
"""

import sys

import fedpace
from fedpace import algorithms
from fedpace.record.report.gantt import gantt
from fedpace.record.report.plot import save
from fedpace.record.run.usage import staleness_of_all
from fedpace.sim import Population

STEPS = 12
task = fedpace.tasks.quadratics([float(client) for client in range(8)])
devices = Population.from_times((1.0, 1.5, 2.0, 2.0, 2.5, 3.0, 4.0, 5.0), up_s=0.25, down_s=0.25)
work = {"client_lr": 0.1, "steps": 5}

ALGORITHMS = {
    "FedAvg": algorithms.fedavg(clients_per_round=3, **work),
    "DeFedAvg-nIID": algorithms.defedavg_niid(draws=3, **work),
    "DeFedAvg-IID": algorithms.defedavg_iid(buffer=3, **work),
}


def main(plot: str | None = None) -> None:
    print(f"{'':15}{'seconds':>9}{'busy':>7}{'used':>6}{'wasted':>8}   updates used, by staleness")
    for name, algorithm in ALGORITHMS.items():
        run = fedpace.simulate(algorithm, task, devices, rounds=STEPS, seed=1)
        lines = run.clients()
        busy = sum(line.busy for line in lines) / task.clients
        used, wasted = sum(line.used for line in lines), sum(line.wasted for line in lines)
        staleness = "  ".join(f"{steps}: {count}" for steps, count in staleness_of_all(lines).items())
        print(f"{name:15}{run.virtual_seconds:>9.2f}{busy:>7.0%}{used:>6}{wasted:>8}   {staleness}")
        if plot is not None and name == "DeFedAvg-nIID":
            save(gantt(run.timeline(), f"{name}: numbers are model versions, lines are server steps"), plot)


if __name__ == "__main__":
    main(*sys.argv[1:2])
