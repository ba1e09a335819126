"""Requests to model servers: JSON over HTTP."""

import json
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any

from data_prep.errors import InputError


def post(url: str, value: Any, timeout: float) -> Any:
    """The answer to a request.

    Args:
      url: of the server's method.
      value: becomes JSON.
      timeout: seconds.

    Raises:
      InputError: no server answers, or it refuses the request.
    """
    headers = {"Content-Type": "application/json"}
    try:
        request = urllib.request.Request(url, json.dumps(value).encode(), headers)
        with urllib.request.urlopen(request, timeout=timeout) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        reason = error.read().decode(errors="replace").strip() or error.reason
        raise InputError(f"{url} answers with status {error.code}: {reason}") from None
    except (OSError, ValueError, HTTPException) as error:  # URLError is an OSError
        raise InputError(
            f"{url} must be the address of a model on a server that runs. Received: "
            f"{getattr(error, 'reason', None) or error}."
        ) from None
