"""Confinement of a subject: put in force by the process that becomes it, before any of its code.

With the standard library alone. What could be closed goes back to the audit, and stands in the result.
"""

from typing import Any

from attnprune_verify.audit.subject import landlock, limits, namespaces, syscalls, view

CHOICES = ("available", "required", "off")
NOTHING: dict[str, Any] = {"kind": "none", "abi": None, "closed": []}
OFF: dict[str, Any] = {"kind": "off", "abi": None, "closed": []}
_BY_A_MOUNT = {"/": view.CLOSED, "/proc": ["processes"], view.SHARED: ["shared-memory"]}


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
    allowed += [(path, landlock.USED) for path in view.DEVICES]
    allowed += [(path, landlock.WRITTEN) for path in {order["folder"], view.SHARED} & {order["folder"], *(own or [])}]
    closed = landlock.restrict(allowed)
    closed += ["hidden-files"] * (bool(closed) and order["whole"])
    if own is not None:
        mounted = {**_BY_A_MOUNT, order["folder"]: ["disk"]}
        closed += [*namespaces.CLOSED, *(name for path in own for name in mounted[path])]
    syscalls.join_new_keyring()
    closed += syscalls.refuse(disk="attributes" not in closed)
    kind = "landlock" if "files" in closed else "namespaces" if own is not None else "seccomp" if closed else "none"
    return {"kind": kind, "abi": landlock.abi() or None, "closed": list(dict.fromkeys(closed))}
