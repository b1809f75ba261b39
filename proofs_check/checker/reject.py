"""The two ways a certificate is not accepted."""


class Reject(Exception):
    """Raised for a certificate that is not accepted; the message is the reason.

    Raised, never asserted, so that `python -O` changes nothing.
    """


class GaveUp(Reject):
    """The certificate could not be judged: it needs more precision or work than the limits of this checker allow."""
