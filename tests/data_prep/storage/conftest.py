import pytest


@pytest.fixture
def url(request):
    """An empty folder of a store in memory."""
    from fsspec.implementations.memory import MemoryFileSystem

    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]
    yield "memory://bucket/folder"
    MemoryFileSystem.store.clear()
