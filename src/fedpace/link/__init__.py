"""Links: vector <-> exact bytes, up and down."""

from fedpace.errors import FrameError
from fedpace.link.codecs.dense import Dense
from fedpace.link.codecs.entropy import EntropyCoded
from fedpace.link.codecs.octaves import Octaves
from fedpace.link.codecs.quantise import Quantize, dequantise, quantise
from fedpace.link.codecs.rand_k import RandK
from fedpace.link.codecs.scaled_sign import ScaledSign
from fedpace.link.codecs.top_k import TopK
from fedpace.link.downlinks.compressed_model import CompressedModel
from fedpace.link.downlinks.difference import Difference
from fedpace.link.downlinks.full import Full, as_downlink
from fedpace.link.downlinks.lazy_model import LazyModel
from fedpace.link.protocol import Codec, Context, Downlink, ExactEntries, Uplink
from fedpace.link.uplinks.accumulate import Accumulate
from fedpace.link.uplinks.adaptive_threshold import AdaptiveThreshold
from fedpace.link.uplinks.averaged import Averaged
from fedpace.link.uplinks.econtrol import EControl
from fedpace.link.uplinks.ef21 import EF21
from fedpace.link.uplinks.error_feedback import ErrorFeedback
from fedpace.link.uplinks.lazy import Lazy
from fedpace.link.uplinks.plain import Plain, as_uplink
from fedpace.link.wire.describe import FrameInfo, describe
from fedpace.link.wire.frame import NonFiniteError, Phantom, ResyncError

CONTROL = Dense()  # the codec of the second vector that a correction sends

__all__ = [
    "CONTROL",
    "EF21",
    "Accumulate",
    "AdaptiveThreshold",
    "Averaged",
    "Codec",
    "CompressedModel",
    "Context",
    "Dense",
    "Difference",
    "Downlink",
    "EControl",
    "EntropyCoded",
    "ErrorFeedback",
    "ExactEntries",
    "FrameError",
    "FrameInfo",
    "Full",
    "Lazy",
    "LazyModel",
    "NonFiniteError",
    "Octaves",
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
