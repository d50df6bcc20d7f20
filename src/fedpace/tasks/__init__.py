"""Data of all clients and a model: everything an experiment trains."""

from fedpace.tasks.quadratics import Quadratics, quadratics

__all__ = ["Quadratics", "quadratics"]
