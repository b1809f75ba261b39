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
# # What holds
#
# The paper (arXiv:2410.11261) has 64 statement environments. Here each of them is judged, the PL lemma is refuted by
# hand, we see why $M = \mathbf 1$ makes the main theorem empty, and we look at the repaired theory next to the truth.
# As in the first notebook, everything comes through the package's front door.

# %%
from collections import Counter

import matplotlib.pyplot as plt
import numpy as np

import attnprune_verify as apv

rng = np.random.default_rng(7)

# %% [markdown]
# ## Every statement, judged
#
# `run_claims` attacks each statement with adversarial families, a guided random search, limits and local optimisation.
# A violation counts only when ball or exact arithmetic confirms it; the verdict on the *printed proof* is kept apart.
# The command `attnprune-verify claims --format html` draws the same result as a dependency graph.

# %%
result = apv.run_claims()
print(result.outcome, dict(result.counts))

# %%
print(f"{'statement':30} {'reading':9} {'verdict':10} {'proof':6} {'evidence':9}")
for record in result.records:
    paper = not record.claim.own and not record.claim.id.startswith("exp:")
    if paper and (record.statement.value != "holds" or record.evidence.proof.value not in ("sound", "none")):
        print(
            f"{record.claim.id:30} {record.claim.reading.name:9} {record.statement.value:10} "
            f"{record.evidence.proof.value:6} {record.evidence.grade:9}"
        )

# %% [markdown]
# Shown are the paper's statements with a flaw in the statement or in its proof; all others hold. A `gap` is a proof
# with
# a false step under a true statement. What the paper says in prose fares worse, and the repaired and new statements
# (`fix:`, `new:`) hold:

# %%
for prefix in ("exp:", "fix:", "new:"):
    verdicts = Counter(r.statement.value for r in result.records if r.claim.id.startswith(prefix))
    print(prefix, dict(verdicts))

# %% [markdown]
# ## The PL lemma, refuted by hand
#
# Take two orthonormal tokens and weights of constant size,
#
# $$X = I_2,\qquad W = s\begin{pmatrix}1&-1\\-1&1\end{pmatrix},\qquad M = 0,\qquad \lambda = 0 .$$
#
# Then $F(0)$ is uniform, so $\delta = 1/2$; $\beta = 1$, $\min|W| = s$. The first row of $f$ is
# $(\sigma, 1-\sigma)$ with $\sigma = 1/(1+e^{-2s})$, hence $c = F(0) - f$ has entries $\pm(\sigma - 1/2)$ and
# $\|c\|_F^2 = 4(\sigma - 1/2)^2$. As $F$ is uniform, $p = c/2$, and the gradient is $W \circ (X^\top p X) = W \circ p$,
# so
#
# $$\|\nabla L\|_F^2 = s^2 \|p\|_F^2 = \tfrac{s^2}{4}\|c\|_F^2 = (\min|W|\,\beta\,\delta)^2\,\|c\|_F^2 .$$
#
# Lemma `lem:PL_ineq` claims $\|\nabla L\|_F^2 \ge \min|W|\,\beta\,\delta\,\|c\|_F^2 = \tfrac s2 \|c\|_F^2$. For
# every $s < 2$ that is false, and the factor $s/2$ by which it fails goes to zero with $s$. Three lower bounds enter
# the
# proof, and none was squared; with the squares the lemma holds, here with equality.

# %%
print(f"{'s':>6} {'||grad||^2':>12} {'claimed':>12} {'with squares':>13}")
for s in (1.0, 0.1, 0.01, 0.001):
    X, W, M = np.eye(2), s * np.array([[1.0, -1.0], [-1.0, 1.0]]), np.zeros((2, 2))
    gradient = apv.gradient(M, X, W)
    c = apv.attention(X, M * W) - apv.attention(X, W)
    left, size = np.sum(gradient**2), np.sum(c**2)
    print(f"{s:6g} {left:12.4e} {s * 0.5 * size:12.4e} {(s * 0.5) ** 2 * size:13.4e}")

# %% [markdown]
# Random Gaussian instances never show this, because for them $\min|W|$ and $\beta$ are tiny:


# %%
def ratios(make, count=300):
    """||grad L||^2 over the claimed right-hand side, lam = 0; below 1 the lemma fails."""
    found = []
    for _ in range(count):
        X, W, M = make()
        F, f = apv.attention(X, M * W), apv.attention(X, W)
        beta = np.linalg.eigvalsh(X @ X.T)[0]
        claimed = np.abs(W).min() * beta * F.min() * np.sum((F - f) ** 2)
        found.append(np.sum(apv.gradient(M, X, W) ** 2) / claimed)
    return np.array(found)


def gaussian():
    return rng.standard_normal((4, 6)), rng.standard_normal((6, 6)), rng.uniform(0, 1, (6, 6))


def constant_size():
    X = np.linalg.qr(rng.standard_normal((6, 4)))[0].T
    return X, 0.1 * rng.choice([-1.0, 1.0], (6, 6)), rng.uniform(0, 1, (6, 6))


samples = {"Gaussian X, W": ratios(gaussian), "orthonormal X, |W| = 0.1": ratios(constant_size)}
for name, found in samples.items():
    print(f"{name:25} violations: {np.sum(found < 1)} of {len(found)}")

figure, axis = plt.subplots(figsize=(7, 3.2), constrained_layout=True)
bins = np.geomspace(min(map(np.min, samples.values())), max(map(np.max, samples.values())), 50)
for (name, found), colour in zip(samples.items(), ("#44749d", "#b3261e"), strict=True):
    axis.hist(found, bins=bins, alpha=0.8, label=name, color=colour)
axis.axvline(1.0, color="black", lw=1)
axis.set(
    xscale="log",
    xlabel=r"$\|\nabla L\|^2$ / claimed lower bound",
    ylabel="instances",
    title="The lemma fails left of 1",
)
axis.legend(frameon=False)
plt.show()

# %% [markdown]
# Under the causal mask the lemma is not false but vacuous: it asks for $\delta > 0$ below *every* entry of the
# attention
# matrix, and forbidden entries are zero.
#
# ## Why $M = \mathbf 1$ makes the main theorem empty
#
# The theorem promises that along gradient descent from $M_0 = \mathbf 1$
#
# $$\min_{t<T}\;\frac{L_{attn}(M_t)}{n^2} + \frac{\lambda^2}{\mu n^2}\|M_t\|_F^2 \;\le\; \frac{\xi + \epsilon}{2},
# \qquad \xi = \frac{12\,\max|W|\,\|X\|_F^2\,\lambda d}{n^{1.5}\,\mu}.$$
#
# At $t = 0$ nothing is pruned: $L_{attn}(\mathbf 1) = 0$ and $\|\mathbf 1\|_F = d$. The left side is
# $\lambda^2 d^2/(\mu n^2)$, and $\mu$ cancels in the comparison with $\xi/2$: **pruning nothing already satisfies the
# theorem whenever $\lambda \le 6\sqrt n\,\max|W|\,\|X\|_F^2/d$.** The paper has $\lambda \in [0, 1]$.

# %%
print(f"{'n':>4} {'d':>4} {'lam up to which M = 1 suffices':>32}")
for n, d in ((4, 6), (16, 16), (64, 64), (128, 64)):
    X, W = rng.standard_normal((n, d)), rng.standard_normal((d, d)) / np.sqrt(d)
    print(f"{n:4} {d:4} {6 * np.sqrt(n) * np.abs(W).max() * np.sum(X**2) / d:32.1f}")

# %% [markdown]
# ## The repaired theory: bound against truth
#
# With $K = \|\Pi A\|$, the norm of the centred logit map $M \mapsto X (M \circ W) X^\top$, the gradient is Lipschitz
# with
# $L = \lambda + C_+ K^2$, $C_+ = (39 + 55\sqrt{33})/1152 \approx 0.308$. The paper's constant is
# $\lambda + 30\, d\, n^{7/2} R^6$. The truth, the largest curvature over all $M$, is searched for by power iteration at
# many masks (which can only find too little).


# %%
def largest_curvature(X, W, mask, tries=60):
    """The largest Rayleigh quotient of the Hessian found over random masks of several sizes (lam = 0)."""
    d, best = len(W), 0.0
    for attempt in range(tries):
        M = rng.standard_normal((d, d)) * (0.3, 1.0, 3.0)[attempt % 3] + attempt % 2
        V = rng.standard_normal((d, d))
        for _ in range(15):
            V /= np.linalg.norm(V)
            V = apv.hessian_vector_product(M, V, X, W, mask=mask) + 0.1 * V
        V /= np.linalg.norm(V)
        best = max(best, np.sum(V * apv.hessian_vector_product(M, V, X, W, mask=mask)))
    return best


sizes = [(2, 2), (3, 3), (4, 4), (6, 4), (8, 6), (12, 8)]
truth, sharp, paper = [], [], []
for n, d in sizes:
    X, W = rng.standard_normal((n, d)), rng.standard_normal((d, d)) / np.sqrt(d)
    constants = apv.constants(apv.Instance(X, W, mask="causal"))
    truth.append(largest_curvature(X, W, "causal"))
    sharp.append(constants.L_sharp)
    paper.append(constants.L_paper)

figure, axis = plt.subplots(figsize=(7, 3.6), constrained_layout=True)
names = [f"{n},{d}" for n, d in sizes]
axis.plot(names, paper, "s-", color="#b3261e", label=r"paper: $30\,d\,n^{7/2}R^6$")
axis.plot(names, sharp, "o-", color="#2e7d4f", label=r"sharp: $C_+K^2$ (certified)")
axis.plot(names, truth, "x--", color="black", label="largest curvature found")
axis.set(yscale="log", xlabel="n, d (causal)", ylabel="Lipschitz constant of the gradient", title="Bound against truth")
axis.legend(frameon=False)
plt.show()
print("paper / found:", [f"{p / t:.1e}" for p, t in zip(paper, truth, strict=True)])
print("sharp / found:", [f"{s / t:.2f}" for s, t in zip(sharp, truth, strict=True)])

# %% [markdown]
# The repaired PL inequality, $\|\nabla L\|_F \ge \min|W|\,\beta\,\delta\,\|c\|_F$ at $\lambda = 0$, over the same two
# kinds of instances: every point stays above the line, and orthonormal tokens with weights of constant size come
# close to it. At $X = I$, $|W| = 1$ and uniform rows it is an equality.

# %%
figure, axis = plt.subplots(figsize=(5.6, 4.2), constrained_layout=True)
for (name, make), colour in zip(
    {"Gaussian X, W": gaussian, "orthonormal X, |W| = 0.1": constant_size}.items(), ("#44749d", "#a86a00"), strict=True
):
    bounds, norms = [], []
    for _ in range(150):
        X, W, M = make()
        F, f = apv.attention(X, M * W), apv.attention(X, W)
        beta = np.linalg.eigvalsh(X @ X.T)[0]
        bounds.append(np.abs(W).min() * beta * F.min() * np.linalg.norm(F - f))
        norms.append(np.linalg.norm(apv.gradient(M, X, W)))
    axis.scatter(bounds, norms, s=8, label=name, color=colour)
    print(f"{name:25} smallest ratio norm / bound: {np.min(np.array(norms) / np.array(bounds)):.2f}")
ends = np.array(axis.get_xlim())
ends[0] = min(bounds) / 1e5
axis.plot(ends, ends, color="black", lw=1)
axis.set(xscale="log", yscale="log", xlabel=r"bound $\min|W|\,\beta\,\delta\,\|c\|_F$", ylabel=r"$\|\nabla L\|_F$")
axis.legend(frameon=False)
plt.show()

# %% [markdown]
# ## What can be relied on
#
# * The gradient formula, and every lemma that leads to it.
# * From $M_0 = \mathbf 1$ with $\eta < 2/L$ the iterates satisfy $\|M_t\|_F^2 + \|c_t\|_F^2/\lambda \le d^2$ (they
# do leave
#   $[0,1]^{d\times d}$).
# * For $\sqrt\lambda\, d \le f_{min}/\sqrt 5$ descent converges linearly to the unique global minimiser, with any
# mask and
#   for $n > d$.
# * For $n > d$ there are spurious strict local minima, so no PL constant can exist there.

# %%
wanted = ("thm:mat_view_l", "new:confinement", "new:linear_convergence", "new:spurious_minima", "fix:PL_ineq")
for record in result.records:
    if record.claim.id in wanted:
        print(f"{record.claim.id}: {record.statement.value}, {record.evidence.grade}. {record.claim.formula}")
