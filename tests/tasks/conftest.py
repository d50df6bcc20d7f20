import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """Engines run solves on one thread; so do the tests."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
