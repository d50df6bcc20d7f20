"""Server optimizers: one update -> the next model."""

from fedpace.server_opt.adagrad import Adagrad
from fedpace.server_opt.adam import Adam
from fedpace.server_opt.amsgrad import AMSGrad
from fedpace.server_opt.momentum import Momentum
from fedpace.server_opt.protocol import ServerOpt
from fedpace.server_opt.stages import Stages
from fedpace.server_opt.yogi import Yogi

__all__ = ["AMSGrad", "Adagrad", "Adam", "Momentum", "ServerOpt", "Stages", "Yogi"]
