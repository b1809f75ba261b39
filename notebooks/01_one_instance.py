# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # One instance, end to end
#
# Read this with the paper at hand (arXiv:2410.11261). We take one small instance of the attention-weight-pruning
# problem, name every symbol, look at the attention matrices, check the closed-form gradient in four independent
# ways, and see which of the paper's assumptions hold. Everything comes through the package's front door.

# %%
import matplotlib.pyplot as plt
import numpy as np

import attnprune_verify as apv

rng = np.random.default_rng(2024)
n, d = 6, 8

# %% [markdown]
# ## The symbols
#
# * `X` holds $n$ tokens of $d$ features, `W` is the fused weight $W_Q W_K^\top$ (Definition *Attention Matrix*).
# * `M` is the pruning mask. It multiplies `W` entry by entry; $M = \mathbf 1$ prunes nothing.
# * The attention mask is causal: token $i$ sees tokens $j \le i$.
# * $F(M) = \mathrm{softmax}(X (M \circ W) X^\top)$, row by row. The paper calls it $\tilde f(M)$, and
#   $F(\mathbf 1) = f$.

# %%
X = rng.standard_normal((n, d))
W = rng.uniform(0.1, 0.5, (d, d)) * rng.choice([-1.0, 1.0], (d, d))
M = rng.uniform(0.0, 1.0, (d, d))
lam = 0.04
instance = apv.Instance(X, W, M=M, mask="causal", lam=lam)
print(instance)

# %%
f = apv.attention(X, W, "causal")
F = apv.attention(X, M * W, "causal")
c = F - f
p = c * F - (c * F).sum(axis=1, keepdims=True) * F

figure, axes = plt.subplots(1, 4, figsize=(13, 3.4), constrained_layout=True)
for axis, (name, matrix) in zip(axes, {"f = F(1)": f, "F(M)": F, "c = F(M) - f": c, "p": p}.items(), strict=True):
    signed = name.startswith(("c", "p"))
    size = np.abs(matrix).max()
    image = axis.imshow(
        matrix, cmap="PuOr" if signed else "cividis", vmin=-size if signed else 0.0, vmax=size if signed else 1.0
    )
    axis.set(title=name, xlabel="token attended to", xticks=range(n), yticks=range(n))
    figure.colorbar(image, ax=axis, shrink=0.8)
axes[0].set_ylabel("token")
plt.show()

# %% [markdown]
# Rows of $F$ sum to one, so rows of $c$ and of $p$ sum to zero, and everything above the diagonal is zero. The first
# token sees only itself: its row cannot change, whatever is pruned.

# %%
print("largest |row sum| of c:", np.abs(c.sum(axis=1)).max())
print("largest |row sum| of p:", np.abs(p.sum(axis=1)).max())

# %% [markdown]
# ## Loss and gradient
#
# $\mathcal L(M) = \tfrac12 \|c\|_F^2 + \tfrac\lambda2 \|M\|_F^2$, and the paper's Theorem *Closed form of
# gradient* says $\nabla \mathcal L(M) = W \circ (X^\top p X) + \lambda M$.

# %%
value, gradient = apv.loss_and_gradient(M, X, W, lam, "causal")
by_hand = W * (X.T @ p @ X) + lam * M
print("loss:", value)
print("largest difference to the formula typed in above:", np.abs(gradient - by_hand).max())

# %% [markdown]
# ## The gradient, checked four ways
#
# `run_check` compares the closed form with automatic differentiation of the literal definition, with the slope of the
# Taylor remainder, with 50-digit arithmetic, and with rigorous ball arithmetic. None of these shares code with the
# closed form. "Allowed" is not a guess: it is a running-error bound for float64 on this very instance.

# %%
result = apv.run_check(instance)
for verdict in result.gradient:
    print(f"{verdict.oracle:>15}  {verdict.status:>8}   {verdict.value:9.2e}  allowed {verdict.tolerance:9.2e}")
assert all(verdict.status == "passed" for verdict in result.gradient)

# %% [markdown]
# The Taylor remainder $|\mathcal L(M + hD) - \mathcal L(M) - h \langle G, D\rangle|$ shrinks like $h^2$ when $G$ is the
# gradient and only like $h$ when it is not, whatever the scale of the loss. Below, the right gradient and three wrong
# ones: $p_2$ forgotten, a sign flipped, and one part in a thousand too large.

# %%
D = rng.standard_normal((d, d))
wrong = {
    "right": gradient,
    "p2 forgotten": W * (X.T @ (c * F) @ X) + lam * M,
    "sign flipped": -gradient,
    "0.1 % too large": 1.001 * gradient,
}
steps = 2.0 ** -np.arange(1, 22)
start = apv.loss(M, X, W, lam, "causal")
figure, axis = plt.subplots(figsize=(7, 4.2), constrained_layout=True)
for (name, candidate), marker in zip(wrong.items(), "osv^", strict=True):
    remainders = [abs(apv.loss(M + h * D, X, W, lam, "causal") - start - h * np.vdot(candidate, D)) for h in steps]
    axis.loglog(steps, remainders, marker=marker, markersize=4, label=name)
axis.loglog(steps, remainders[0] * (steps / steps[0]) ** 2 / 3, "k:", label="slope 2")
axis.set(xlabel="step h", ylabel="Taylor remainder", ylim=(1e-15, None))
axis.legend()
plt.show()

# %% [markdown]
# ## The assumptions
#
# The convergence theorem needs $XX^\top \succeq \beta I$ with $\beta > 0$ and *every* entry of $F(M)$ at least
# $\delta > 0$. With the theorem's own causal mask the second one cannot hold for two or more tokens: the entries above
# the diagonal are exactly zero.

# %%
for assumption in result.assumptions:
    verdict = "holds" if assumption.holds else "FAILS"
    print(f"{verdict}  {assumption.id:<21} {assumption.value:<10.3g} {assumption.reason}")

# %%
print("theorem applies:", result.theorem.applies)
for reason in result.theorem.reasons:
    print(" -", reason)

# %% [markdown]
# ## What the bounds say here
#
# The Lipschitz constant of the paper is right but loose; ours is certified and sharp up to a small factor. The paper's
# Polyak-Lojasiewicz lemma is false in general: it drops three squares. On the instance below, small enough to follow
# by hand, it is violated, and the corrected inequality holds with equality up to the last digits.

# %%
constants = result.constants
print(f"Lipschitz constant   paper {constants.L_paper:.3g}   ours {constants.L_sharp:.3g}")

tiny = apv.Instance(np.eye(2), 0.1 * np.array([[1.0, -1.0], [-1.0, 1.0]]), M=np.zeros((2, 2)))
for bound in apv.run_check(tiny).bounds:
    print(f"{bound.id:<16} {bound.status:<10} left {bound.lhs:.4e}   right {bound.rhs:.4e}")
