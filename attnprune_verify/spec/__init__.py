"""The executable spec for pytest, and the same checks as tests of someone's own suite."""

from attnprune_verify.spec.decorator import parametrize_with_checks, parametrize_with_kernel_checks

__all__ = ["parametrize_with_checks", "parametrize_with_kernel_checks"]
