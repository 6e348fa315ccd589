"""Where an upload lies: each in a folder of its own, whose name cannot be guessed.

gradio's own route names the folder by what the file holds. Two visitors with the same file would share it, and the one
whose file is deleted first takes it from the other. It also keeps what had arrived of an upload that was broken off,
and holds up to a thousand files of one request open. It tells the browser the place on the disk; here the browser gets
a name below the folder of uploads, which becomes the place again when the browser sends it back.
"""

import asyncio
import json
import logging
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from python_multipart.multipart import parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from spectra.io.json_text import parse_json
from visual.asgi import App, Message, Receive, Send, declared, held_back, read, refuse, replay
from visual.guard import UPLOAD, RequestLimits, address_of
from visual.run.race_file import MAX_BYTES

log = logging.getLogger("spectra")

LONGEST = 40
"""Characters of a file's name, and of its ending, and a third of their bytes."""
MOST_DELIMITERS = 100
"""In a form: the parser goes through what follows each of them letter by letter, blanks without end."""
NO_FORM = 'this is no form with one file in "files"'
FILE = "gradio.FileData"
OF_THE_BODY = b"content-type", b"content-length"
UPLOADED = re.compile(r"([0-9a-f]{32})/([^/]+)")
"""What the browser calls an upload: its folder and its name."""


class Uploads:
    """The uploads of one page that arrive and that wait to be taken, which is all that they need of the disk."""

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self._arriving: Counter[str] = Counter()
        self._waiting: dict[Path, tuple[str, int]] = {}

    def route(self) -> Route:
        """Instead of gradio's own: the first route of a path answers."""
        return Route(UPLOAD, self.take, methods=["POST"])

    async def take(self, request: Request) -> Response:
        """A form with one file in its field "files" becomes the list of its one name, as gradio's page expects."""
        app = request.app
        address = address_of(request.scope)
        try:
            request = Request(request.scope, few_delimiters(request.receive, boundary_of(request)))
            with self._room(address, declared(request.scope) or self._limits.upload):
                async with request.form(max_files=1, max_fields=1) as form:
                    files = form.getlist("files")
                    if len(files) != 1 or not isinstance(files[0], UploadFile):
                        raise HTTPException(400, NO_FORM)
                    size = files[0].size or 0
                    if size > MAX_BYTES:
                        raise HTTPException(413, f"over {MAX_BYTES} bytes")
                    name = name_of(files[0].filename or "")
                    file = await run_in_threadpool(keep, files[0].file, Path(app.uploaded_file_dir), name)
                    self._waiting[file] = address, size
        except ClientDisconnect:
            return Response(status_code=400)
        except OSError as error:
            log.warning("an upload cannot be kept: %s", error.strerror)
            raise HTTPException(507, f"the server cannot keep it ({error.strerror}); try again later") from error
        ended = app.get_blocks().upload_file_set  # gradio deletes these when it ends
        ended.add(str(file))
        asyncio.get_running_loop().call_later(self._limits.kept, self._forget, file, ended)
        return JSONResponse([f"{file.parent.name}/{file.name}"])

    @contextmanager
    def _room(self, address: str, size: int) -> Iterator[None]:
        """Disk for one more while it arrives. Raises HTTPException where there is none."""
        self._waiting = {file: held for file, held in self._waiting.items() if file.exists()}
        held = self._arriving + Counter()
        for holder, bytes_held in self._waiting.values():
            held[holder] += bytes_held
        if held[address] + size > self._limits.held or held.total() + size > self._limits.all_held:
            raise HTTPException(429, "too many uploads that nobody used; open those first, or try again in an hour")
        self._arriving[address] += size
        try:
            yield
        finally:
            self._arriving[address] -= size
            self._arriving += Counter()  # without those that have none

    def _forget(self, file: Path, ended: set[str]) -> None:
        self._waiting.pop(file, None)
        ended.discard(str(file))
        discard(file)


def boundary_of(request: Request) -> bytes:
    """What separates the parts of a form. Raises HTTPException for any other kind of request."""
    kind, options = parse_options_header(request.headers.get("content-type"))
    if kind != b"multipart/form-data" or not options.get(b"boundary"):
        raise HTTPException(400, NO_FORM)
    return options[b"boundary"]


def few_delimiters(receive: Receive, boundary: bytes) -> Receive:
    """Raises HTTPException where a file holds the line that ends it over and over, or blanks follow that line."""
    delimiter = b"\r\n--" + boundary
    count, last = 0, b""

    async def received() -> Message:
        nonlocal count, last
        message = await receive()
        text = last + bytes(message.get("body", b""))
        count += text.count(delimiter)
        if count > MOST_DELIMITERS or delimiter + b" " in text or delimiter + b"\t" in text:
            raise HTTPException(400, NO_FORM)
        last = text[-len(delimiter) :]
        return message

    return received


def discard(file: Path) -> None:
    """Delete an uploaded file and the folder that was made for it. A call by hand may name what is no file."""
    with suppress(OSError, ValueError):
        file.unlink(missing_ok=True)
        file.parent.rmdir()


def with_places(app: App) -> App:
    """The app, to which requests name uploads by their places: what starlette calls a middleware."""

    async def served(scope: Message, receive: Receive, send: Send) -> None:
        post = scope["type"] == "http" and scope["method"] == "POST"
        if post and not str(scope["path"]).rstrip("/").endswith(UPLOAD):
            body = await read(receive)
            try:
                body = placed(body, Path(scope["app"].uploaded_file_dir))
            except LookupError:
                await refuse(send, 400, "a file has to be uploaded first")
                return
            receive = replay(body, receive)
        await app(scope, receive, send)

    return served


def with_words(app: App) -> App:
    """The app that says in words alone why an upload is not taken: gradio's script shows that answer as it comes."""

    async def served(scope: Message, receive: Receive, send: Send) -> None:
        upload = scope["type"] == "http" and str(scope["path"]).rstrip("/").endswith(UPLOAD)
        await app(scope, receive, worded(send) if upload else send)

    return served


def worded(send: Send) -> Send:
    """Sends the reason of a refusal without the JSON around it."""

    async def finish(start: Message, body: bytes) -> None:
        with suppress(ValueError, LookupError, TypeError, AttributeError):
            body = parse_json(body)["detail"].encode()
            others = [(name, value) for name, value in start["headers"] if name.lower() not in OF_THE_BODY]
            own = zip(OF_THE_BODY, (b"text/plain; charset=utf-8", str(len(body)).encode()), strict=True)
            start["headers"] = [*others, *own]
        await send(start)
        await send({"type": "http.response.body", "body": body})

    return held_back(send, lambda start: bool(start["status"] >= 400), finish)


def placed(body: bytes, uploads: Path) -> bytes:
    """The request with the place of each file that it names. Raises LookupError for a name that no upload was given."""
    try:
        request = parse_json(body)
    except ValueError:
        return body
    files = list(files_in(request))
    for file in files:
        named = UPLOADED.fullmatch(file["path"])
        if named is None or name_of(named[2]) != named[2]:
            raise LookupError(file["path"])
        file["path"] = str(uploads / named[1] / named[2])
    return json.dumps(request).encode() if files else body


def files_in(request: Any) -> Iterator[dict[str, Any]]:
    """What gradio takes for a file in a request."""
    waiting = [request]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            meta = value.get("meta")
            if isinstance(value.get("path"), str) and isinstance(meta, dict) and meta.get("_type") == FILE:
                yield value
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def place(file: Any) -> Path | None:
    """Where an upload lies that a handler got with `preprocess=False`: gradio's own reading of it leaves an empty file
    behind for each.
    """
    return Path(file["path"]) if file else None


def keep(source: BinaryIO, uploads: Path, name: str) -> Path:
    """A copy in a new folder of `uploads`; nothing is left where it cannot be written."""
    folder = uploads / secrets.token_hex(16)
    folder.mkdir(parents=True)
    try:
        with (folder / name).open("wb") as copy:
            shutil.copyfileobj(source, copy)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder / name


def name_of(given: str) -> str:
    """A name that no file system reads anything into, from the one that the browser gave."""
    name = "".join(
        letter for letter in given.replace("\\", "/").rpartition("/")[2] if letter.isalnum() or letter in " ._-"
    )
    stem, dot, ending = name.rpartition(".")
    if not dot:
        stem, ending = name, ""
    return f"{_short(stem, ' .') or 'upload'}{dot}{_short(ending, ' ')}"


def _short(text: str, edges: str) -> str:
    """Without these letters at its ends, where it is cut too, so that a name which was made here is its own."""
    cut = text.strip(edges)[:LONGEST].encode()[: 3 * LONGEST]
    return cut.decode(errors="ignore").rstrip(edges)
