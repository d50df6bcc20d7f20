from __future__ import annotations

import pytest

from fedpace.record.run.units import format_bytes, format_seconds


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (1_620_000, "1.62 MB"),
        (16.2e9, "16.2 GB"),
        (2e15, "2000 TB"),
    ],
)
def test_bytes_have_three_digits_and_a_decimal_unit(count: float, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.0, "0.00 s"), (12.54, "12.5 s"), (1204.4, "1,204 s")])
def test_virtual_time_stays_in_seconds(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
