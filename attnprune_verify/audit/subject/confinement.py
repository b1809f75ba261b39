"""Confinement of a subject: put in force by the process that becomes it, before any of its code.

With the standard library alone. What could be closed goes back to the audit, and stands in the result.
"""

from __future__ import annotations

from typing import Any

from attnprune_verify.audit.subject import landlock, limits, namespaces

__all__ = ["CHOICES", "DEVICES", "NOTHING", "OFF", "put_in_force"]

CHOICES = ("available", "required", "off")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
"""Devices that may be read and written. Those of a GPU (``/dev/nvidia*``) belong here once GPU subjects are audited."""
_SHARED = "/dev/shm"
NOTHING: dict[str, Any] = {"kind": "none", "abi": None, "closed": []}
OFF: dict[str, Any] = {"kind": "off", "abi": None, "closed": []}


def put_in_force(order: dict[str, Any], own: list[str] | None) -> dict[str, Any]:
    """Close what can be closed, in this process and its children.

    Parameters
    ----------
    order : dict
        What `attnprune_verify.audit.subject.reach.plan` has made.
    own : list of str, optional
        The paths that this process has for itself, where it is in namespaces of its own.

    Returns
    -------
    dict
        ``kind``, ``abi`` and ``closed`` as they stand in the result.
    """
    limits.limit_resources()
    if not order["confined"]:
        return OFF
    namespaces.drop_rights()
    allowed = [(path, landlock.READ) for path in order["read"]]
    allowed += [(path, landlock.LISTED) for path in order["listed"]]
    allowed += [(path, landlock.USED) for path in DEVICES]
    allowed += [(path, landlock.WRITTEN) for path in {order["folder"], _SHARED} & {order["folder"], *(own or [])}]
    closed = landlock.restrict(allowed)
    if own is not None:
        closed += [*namespaces.CLOSED, *(["shared-memory"] if _SHARED in own else [])]
        closed += ["disk"] if order["folder"] in own else []
    kind = "landlock" if "files" in closed else "namespaces" if closed else "none"
    return {"kind": kind, "abi": landlock.abi() or None, "closed": closed}
