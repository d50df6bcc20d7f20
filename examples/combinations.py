"""Three unpublished algorithms, each one line away from a published one.

python examples/combinations.py
"""

from dataclasses import replace

import fedpace
from fedpace import algorithms
from fedpace.server_opt import AMSGrad, Momentum
from fedpace.sim import Population
from fedpace.theory import multistage

STEPS = 60
task = fedpace.tasks.load("digits", clients=40, partition="dirichlet:0.3", model="softmax", seed=0)
devices = Population.uniform_slowdown(1, 5)
work = {"epochs": 3, "client_lr": 0.1}

PUBLISHED = {
    "CA2FL": algorithms.ca2fl(buffer=5, concurrency=10, **work),
    "DeFedAvg": algorithms.defedavg_niid(draws=5, **work),
    "FedBuff": algorithms.fedbuff(buffer=5, concurrency=10, **work),
}
NEW = {
    "CA2FL + FedGM": replace(PUBLISHED["CA2FL"], server_opt=Momentum(lr=1.5, beta=0.7, nu=0.7)),
    "DeFedAvg + stages": replace(PUBLISHED["DeFedAvg"], server_opt=multistage((2, 1, 0.5), STEPS, 0.7, 0.7)),
    "FedBuff + AMSGrad": replace(PUBLISHED["FedBuff"], server_opt=AMSGrad(lr=0.03)),
}


def main() -> None:
    print(f"{'':20}{'accuracy':>10}{'staleness':>11}")
    for name, algorithm in {**PUBLISHED, **NEW}.items():
        run = fedpace.simulate(algorithm, task, devices, rounds=STEPS, evaluate_every=STEPS, seed=1)
        staleness = [steps for record in run.history for steps in record.staleness]
        print(f"{name:20}{run.final['accuracy']:>10.3f}{sum(staleness) / len(staleness):>11.2f}")


if __name__ == "__main__":
    main()
