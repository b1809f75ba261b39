"""jax.value_and_grad on the literal loss, in jax's 32 bits and in 64."""

from attnprune_verify.audit import adapters
from tests.audit.layouts.jax_loss import loss

single, double = adapters.jax_loss(loss, x64=False), adapters.jax_loss(loss, x64=True)
