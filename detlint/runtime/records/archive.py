"""A record as one file: a zip archive of `record.json` and `values.safetensors`; nothing in it can run code."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from typing import TYPE_CHECKING, Final

from safetensors import SafetensorError
from safetensors.torch import load, save

from detlint.errors import RecordError, one_line
from detlint.files import write_atomically
from detlint.runtime.records.record import Record
from detlint.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

VERSION: Final = 1
"""Of the format; grows when what older readers rely on is renamed, removed or changes its meaning."""

_FORMAT: Final = "detlint record"
_DOCUMENT: Final = "record.json"
_VALUES: Final = "values.safetensors"
_LIMITS: Final = {_DOCUMENT: 512 << 20, _VALUES: 64 << 20}
"""Bytes that a part may have once unpacked; records of large models take up a tenth of it."""

_EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # the same run gives the same bytes, whenever it is recorded


def write_record(path: Path, record: Record) -> None:
    """Write the record to `path` in one step.

    Raises:
        UsageError: the folder does not exist or may not be written to.
    """
    document, values = record.encode()
    tool = {"name": "detlint", "version": __version__}
    text = json.dumps({"format": _FORMAT, "version": VERSION, "tool": tool, **document}, allow_nan=False)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in ((_DOCUMENT, text.encode()), (_VALUES, save(values))):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
    write_atomically(path, stream.getvalue())


def read_record(path: Path) -> Record:
    """Read a record, also one from a stranger.

    Raises:
        RecordError: there is no such file, it is no record, is damaged, too large, or of a newer detlint; says which.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            text, values = _part(archive, path, _DOCUMENT), _part(archive, path, _VALUES)
        document = json.loads(text)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror or error}") from None
    except KeyError:
        raise RecordError(f"{path}: not a record of detlint: it does not hold {_DOCUMENT} and {_VALUES}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise RecordError(f"{path}: not a record of detlint, or damaged: {error}") from None
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise RecordError(f"{path}: not a record of detlint: {_DOCUMENT} is of another format")
    version = document.get("version")
    if version != VERSION:
        raise RecordError(
            f"{path}: written by detlint {_writer(document)} in version {version!r} of the format; "
            f"this is detlint {__version__}, which reads version {VERSION}: use the newer one of both to compare"
        )
    try:
        return Record.decode(document, load(values))
    except (
        SafetensorError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        RuntimeError,
        ArithmeticError,
    ) as error:
        raise RecordError(f"{path}: damaged: {one_line(error)}") from None


def _part(archive: zipfile.ZipFile, path: Path, name: str) -> bytes:
    """Unpack a part; what its header says of its size is not relied upon."""
    limit = _LIMITS[name]
    with archive.open(name) as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise RecordError(f"{path}: {name} is larger than the {limit >> 20} MB that a record may have")
    return data


def _writer(document: dict[str, object]) -> str:
    tool = document.get("tool")
    return str(tool.get("version")) if isinstance(tool, dict) else "of an unknown version"
