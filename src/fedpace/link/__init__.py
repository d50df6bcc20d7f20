"""Stop 2: vector <-> exact bytes, up and down."""

from fedpace.errors import FrameError
from fedpace.link.adapt import as_downlink, as_uplink
from fedpace.link.dense import Dense
from fedpace.link.describe import FrameInfo, describe
from fedpace.link.difference import Difference
from fedpace.link.ef21 import EF21
from fedpace.link.error_feedback import ErrorFeedback
from fedpace.link.frame import NonFiniteError, Phantom, ResyncError
from fedpace.link.full import Full
from fedpace.link.lazy import Lazy
from fedpace.link.literal import Literal
from fedpace.link.plain import Plain
from fedpace.link.protocol import Codec, Context, Downlink, Uplink
from fedpace.link.quantise import Quantize, dequantise, quantise
from fedpace.link.rand_k import RandK
from fedpace.link.scaled_sign import ScaledSign
from fedpace.link.top_k import TopK

CONTROL = Dense()  # the codec of the second vector that a correction sends

__all__ = [
    "CONTROL",
    "EF21",
    "Codec",
    "Context",
    "Dense",
    "Difference",
    "Downlink",
    "ErrorFeedback",
    "FrameError",
    "FrameInfo",
    "Full",
    "Lazy",
    "Literal",
    "NonFiniteError",
    "Phantom",
    "Plain",
    "Quantize",
    "RandK",
    "ResyncError",
    "ScaledSign",
    "TopK",
    "Uplink",
    "as_downlink",
    "as_uplink",
    "dequantise",
    "describe",
    "quantise",
]
