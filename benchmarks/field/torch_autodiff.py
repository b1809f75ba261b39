"""torch.autograd on the literal loss."""

from attnprune_verify.audit import adapters
from tests.audit.layouts.torch_loss import loss

target = adapters.torch_loss(loss, second_order=True)
