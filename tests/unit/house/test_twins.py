"""The sync classes of the facade are what the generator makes of the async ones, and nobody edits them by hand."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.twins.__main__ import main
from tests.twins.rooms import FACADE
from tests.twins.translation import Untranslatable, translate


@pytest.fixture
def facade(tmp_path: Path) -> Path:
    """A copy of two modules of both rooms."""
    for room in ("aio", "sync"):
        (tmp_path / room).mkdir()
        for name in ("__init__.py", "closing.py", "message.py"):
            shutil.copy(FACADE / room / name, tmp_path / room / name)
    return tmp_path


def test_the_committed_twins_are_up_to_date() -> None:
    assert main(["--check"]) == 0


def test_a_twin_that_was_edited_is_named(facade: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"], facade) == 0
    twin = facade / "sync" / "message.py"
    text = twin.read_text()
    twin.write_text(text.replace("timeout: float | None = None", "timeout: float | None = 1.0"))
    assert twin.read_text() != text
    assert main(["--check"], facade) == 1
    said = capsys.readouterr().err
    assert str(twin) in said
    assert "closing.py" not in said
    assert main([], facade) == 0
    assert twin.read_text() == text


def test_a_twin_that_is_missing_or_left_over_is_named(
    facade: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing, left_over = facade / "sync" / "closing.py", facade / "sync" / "gone.py"
    missing.unlink()
    left_over.write_text("")
    assert main(["--check"], facade) == 1
    said = capsys.readouterr().err
    assert str(missing) in said
    assert str(left_over) in said
    assert main([], facade) == 0
    assert missing.exists()
    assert not left_over.exists()


def test_an_inner_room_has_its_twins_in_an_inner_room(
    facade: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (facade / "aio" / "inner").mkdir()
    (facade / "aio" / "inner" / "__init__.py").write_text('"""A room."""\n')
    (facade / "aio" / "inner" / "thing.py").write_text("class AsyncThing: ...\n")
    twin = facade / "sync" / "inner" / "thing.py"
    assert main(["--check"], facade) == 1
    assert str(twin) in capsys.readouterr().err
    assert main([], facade) == 0
    assert twin.read_text().startswith("# Generated from ../../aio/inner/thing.py by")
    assert twin.read_text().endswith("class Thing: ...\n")
    (facade / "aio" / "inner" / "thing.py").unlink()
    assert main([], facade) == 0
    assert not twin.exists()


def test_code_is_translated_by_token() -> None:
    source = """
class AsyncThing(AsyncCloses):
    async def __aiter__(self) -> AsyncIterator[AsyncMessage]:
        async with self.lock, other:
            async for one in await steps.run_async(self._batch()):
                yield (await self.async_part(one), self.awaiting)  # AsyncMessage
        raise StopAsyncIteration
"""
    assert (
        translate(source)
        == """
class Thing(Closes):
    def __iter__(self) -> Iterator[Message]:
        with self.lock, other:
            for one in steps.run(self._batch()):
                yield (self.async_part(one), self.awaiting)  # Message
        raise StopIteration
"""
    )


def test_docstrings_are_written_for_sync_users() -> None:
    source = '''
def messages(self) -> AsyncMessages:
    """All messages: ``async for message in await worker.messages()``.

    Async: close it, or use
    ``async with``.

    An async context manager, as :class:`AsyncListener`.
    """
'''
    assert (
        translate(source)
        == '''
def messages(self) -> Messages:
    """All messages: ``for message in worker.messages()``.

    A context manager, as :class:`Listener`.
    """
'''
    )


def test_a_docstring_that_keeps_one_paragraph_is_one_line() -> None:
    source = 'class AsyncThing:\n    """A thing.\n\n    Async: it is awaited.\n    """\n'
    assert translate(source) == 'class Thing:\n    """A thing."""\n'


@pytest.mark.parametrize(
    "source",
    [
        "import asyncio\n",
        '"""Every call is awaited."""\n',
        "done = 1  # in a coroutine\n",
    ],
)
def test_what_still_speaks_of_async_code_is_refused(source: str) -> None:
    with pytest.raises(Untranslatable, match="line 1 of the twin"):
        translate(source)


def test_a_module_that_cannot_be_translated_fails_with_its_name(
    facade: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (facade / "aio" / "message.py").write_text("import asyncio\n")
    before = (facade / "sync" / "message.py").read_text()
    assert main(["--check"], facade) == 1
    assert main([], facade) == 1
    assert "message.py" in capsys.readouterr().err
    assert (facade / "sync" / "message.py").read_text() == before


@pytest.mark.parametrize(
    "code",
    [
        "async def f(x):\n    async with aclosing(x): pass\n",
        "async def f(it):\n    return await anext(it)\n",
        "async def f(gen):\n    await gen.aclose()\n",
        "@asynccontextmanager\nasync def f(): yield\n",
        "async def f(stack, x):\n    await stack.enter_async_context(x)\n",
        "def f(x: Awaitable[int]) -> None: ...\n",
        "def f(x): return inspect.isawaitable(x)\n",
        "class AsyncThing:\n    def __await__(self): ...\n",
        "async def f():\n    await anyio.sleep(1)\n",
        "try: ...\nexcept CancelledError: ...\n",
    ],
)
def test_async_code_that_has_no_sync_form_is_refused(code: str) -> None:
    with pytest.raises(Untranslatable):
        translate(code)
