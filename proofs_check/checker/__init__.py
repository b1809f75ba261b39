"""The checker of certificates: standard library only, and no line shared with the producer."""

from proofs_check.checker.certificate import PAPER_SHA256 as PAPER_SHA256
from proofs_check.checker.certificate import CertificateVerdict as CertificateVerdict
from proofs_check.checker.certificate import judge_bytes as judge_bytes
from proofs_check.checker.certificate import judge_file as judge_file
