"""Optuna as a sampler for sweeps: it samples near the best values so far."""

from __future__ import annotations

import math
from typing import Any

from fedpace.errors import ConfigError
from fedpace.record.run.metrics import rises
from fedpace.study.sweep import Grid, Settings


class Search:
    """`trials` choices from the grid's values, by Optuna's tree-structured Parzen estimator."""

    def __init__(self, grid: Grid, metric: str, trials: int, seed: int) -> None:
        try:
            import optuna
        except ImportError:
            raise ConfigError("the search needs Optuna: pip install 'fedpace[optuna]'") from None
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.trials, self._grid, self._asked = trials, grid, 0
        direction = "maximize" if rises(metric) else "minimize"
        self._study = optuna.create_study(direction=direction, sampler=optuna.samplers.TPESampler(seed=seed))
        self._open: dict[tuple[int, ...], list[Any]] = {}

    def ask(self) -> Settings | None:
        if self._asked == self.trials:
            return None
        self._asked += 1
        trial = self._study.ask()
        places = {name: trial.suggest_int(name, 0, len(values) - 1) for name, values in self._grid.items()}
        self._open.setdefault(tuple(places.values()), []).append(trial)
        return {name: self._grid[name][place] for name, place in places.items()}

    def tell(self, settings: Settings, value: float) -> None:
        from optuna.trial import TrialState

        key = tuple(list(values).index(settings[name]) for name, values in self._grid.items())
        trial = self._open[key].pop()
        if math.isnan(value):
            self._study.tell(trial, state=TrialState.FAIL)
        else:
            self._study.tell(trial, value)
