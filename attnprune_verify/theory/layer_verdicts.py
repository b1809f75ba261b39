"""Verdicts of the paper's inequalities and its theorem on a real layer: head by head, the worst one reported.

Each head with a fused weight is judged as the paper's problem (`heads`), with one mask M on that weight. The theorem is
not about a descent on M_Q and M_K; the reports note this.
"""

import math
from collections.abc import Callable
from dataclasses import replace

from attnprune_verify.instance.problem import LayerInstance
from attnprune_verify.theory.bounds import BOUND_IDS, Bound, evaluate_bounds
from attnprune_verify.theory.guarantees import pair_descent
from attnprune_verify.theory.heads import fused_heads, obstacle
from attnprune_verify.theory.numbers.balls import nearest
from attnprune_verify.theory.quantities.measure import logit_norm
from attnprune_verify.theory.theorem import TheoremVerdict, theorem

_MANY = 2**18  # numbers in all fused weights: above, the inequalities are evaluated on one head
_WORST_FIRST = ("violated", "undecided", "holds", "not_applicable")
_ABOUT = "The theorem is about one mask on a fused weight, not about M_Q and M_K: each head is judged as that problem."


def layer_bounds(instance: LayerInstance, progress: Callable[[str], None] | None = None) -> tuple[Bound, ...]:
    """`bounds.evaluate_bounds` on every head, the worst of each; not applicable where there is no fused weight.

    Where the fused weights are large (more than 2**18 numbers together), only the head with the largest K is judged.

    Examples
    --------
    >>> import numpy as np
    >>> from attnprune_verify.instance.layer import AttentionLayer
    >>> layer = AttentionLayer(np.eye(2), np.eye(2), softcap=30.0)
    >>> {bound.status for bound in layer_bounds(LayerInstance(layer, np.eye(2)))}
    {'not_applicable'}
    """
    say = progress or (lambda text: None)
    problems = dict(enumerate(fused_heads(instance)))
    if not problems:
        why = obstacle(instance.layer)
        return tuple(Bound(name, math.nan, math.nan, "not_applicable", f"{why}.") for name in BOUND_IDS)
    if sum(problem.W.size for problem in problems.values()) > _MANY:
        steepest = max(problems, key=lambda head: nearest(logit_norm(problems[head]).upper))
        problems = {steepest: problems[steepest]}
    found = []
    for head, problem in problems.items():
        say(f"bounds on head {head}")
        found.append([replace(bound, note=f"head {head}: {bound.note}") for bound in evaluate_bounds(problem)])
    return tuple(min(one, key=lambda bound: _WORST_FIRST.index(bound.status)) for one in zip(*found, strict=True))


def layer_theorem(instance: LayerInstance, *, beta: float | None = None, delta: float | None = None) -> TheoremVerdict:
    """`theorem.theorem` on every head: it applies if it applies to all heads, and is vacuous if vacuous on one.

    Examples
    --------
    >>> import numpy as np
    >>> from attnprune_verify.instance.layer import AttentionLayer
    >>> verdict = layer_theorem(LayerInstance(AttentionLayer(np.eye(2), np.eye(2), softcap=30.0), np.eye(2)))
    >>> verdict.applies, verdict.reasons[0]
    (False, 'It does not apply: the softcap bends the logits: there is no fused weight.')
    """
    heads = fused_heads(instance)
    if not heads:
        return TheoremVerdict(
            False, True, (f"It does not apply: {obstacle(instance.layer)}.",), guarantees=(pair_descent(instance),)
        )
    found = [theorem(head, beta=beta, delta=delta) for head in heads]
    worst = min(range(len(found)), key=lambda head: (found[head].applies, not found[head].vacuous))
    verdict = found[worst]
    return replace(
        verdict,
        applies=all(one.applies for one in found),
        vacuous=any(one.vacuous for one in found),
        reasons=(_ABOUT, *(f"head {worst}: {reason}" for reason in verdict.reasons)),
        guarantees=(
            *(replace(one, says=f"head {worst}: {one.says}") for one in verdict.guarantees),
            pair_descent(instance),
        ),
    )
