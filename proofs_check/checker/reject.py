"""The one way a certificate fails."""


class Reject(Exception):
    """The certificate is not accepted; the message says why.

    Raised, never asserted, so that `python -O` changes nothing.
    """
