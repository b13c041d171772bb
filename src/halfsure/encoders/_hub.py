"""The Hugging Face hub: asked only for a name that is no folder here, once, and not for long."""

import re
import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from halfsure._disk import reason
from halfsure.encoders.encoder import EncoderError

__all__ = ["cached_or_fetched", "is_hub_name"]

NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?")
WANTED = ("*.json", "*.safetensors", "*.txt", "*.model", "LICENSE*", "NOTICE*", "1_Pooling/config.json")
"""No pickles, no code."""
PATIENCE = 3.0
"""Seconds to wait for the hub's first answer."""


def is_hub_name(name: str) -> bool:
    """Whether the hub could have a network of this name: an owner and a name at most, no path."""
    return NAME.fullmatch(name) is not None and ".." not in name


def cached_or_fetched(name: str) -> Path:
    """The folder of a network of the hub: as it was fetched before, else fetched now."""
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - an extra
    from huggingface_hub.errors import LocalEntryNotFoundError  # noqa: PLC0415

    try:
        folder = Path(snapshot_download(name, local_files_only=True, allow_patterns=list(WANTED)))
        if (folder / "config.json").is_file() and any(folder.glob("*.safetensors")):
            return folder
    except (LocalEntryNotFoundError, OSError, ValueError):
        pass
    if problem := _asked(name):
        raise EncoderError(f"hf:{name}: there is no such folder here, and {problem}")
    try:
        return Path(snapshot_download(name, allow_patterns=list(WANTED), etag_timeout=PATIENCE))
    except Exception as error:  # of httpx, of the hub, of the disk
        raise EncoderError(f"hf:{name} could not be fetched from the hub: {reason(error):.160}") from None


def _asked(name: str) -> str:
    """Why a network cannot be had of the hub, in words; empty if it can. One request: the hub's own client tries for
    half a minute.
    """  # noqa: D205
    from huggingface_hub import constants  # noqa: PLC0415 - an extra

    if constants.is_offline_mode() if hasattr(constants, "is_offline_mode") else constants.HF_HUB_OFFLINE:
        return "the hub is not asked, for HF_HUB_OFFLINE is set"
    address = f"{constants.ENDPOINT}/{quote(name)}/resolve/main/config.json"

    def ask() -> str:
        request = urllib.request.Request(address, method="HEAD", headers={"User-Agent": "halfsure"})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE):
                return ""
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in (401, 403, 404):
                return f"the hub gives no such network to everybody (HTTP {error.code})"
            return f"the hub answers with HTTP {error.code}"
        except urllib.error.URLError as error:
            if isinstance(error.reason, ssl.SSLError):
                return ""  # its client knows more certificates
            return f"the hub cannot be reached ({_why(error.reason)})"
        except (OSError, ValueError) as error:
            return f"the hub cannot be reached ({reason(error)})"

    # Looking a name up has no limit of time of its own.
    return _within(PATIENCE + 1, ask, "the hub cannot be reached (no answer)")


def _why(problem: Any) -> str:
    return "its name is not known here" if isinstance(problem, socket.gaierror) else str(problem)[:100]


def _within(seconds: float, ask: Callable[[], str], otherwise: str) -> str:
    answers = list[str]()
    thread = threading.Thread(target=lambda: answers.append(ask()), daemon=True)
    thread.start()
    thread.join(seconds)
    return answers[0] if answers else otherwise
