"""Readers and requirements that the smaller statements share."""

from proofs_check.checker import fields
from proofs_check.checker.fields import Document
from proofs_check.checker.reject import Reject


def require_claim(certificate: Document, kind: str, relation: str) -> None:
    claim = fields.closed(certificate["claim"], ("relation",), "claim")
    if certificate["kind"] != kind or claim["relation"] != relation:
        raise Reject(f"this statement has the kind {kind!r} and the relation {relation!r}")


def require_reading(certificate: Document, reading: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """A reading with exactly these keys, each with one of the listed values."""
    found = fields.closed(certificate["reading"], tuple(reading), "reading")
    return {key: fields.choice(found[key], allowed, f"reading.{key}") for key, allowed in reading.items()}


def enclosures(certificate: Document, names: tuple[str, ...]) -> dict[str, fields.Bounds]:
    quantities = fields.closed(certificate["quantities"], names, "quantities")
    return {name: fields.enclosure(quantities[name], f"quantities.{name}") for name in names}


def no_hypotheses(certificate: Document) -> None:
    fields.closed(certificate["hypotheses"], (), "hypotheses")
