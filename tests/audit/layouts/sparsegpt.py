"""A SparseGPT in the layout of the published program, on the lower factor of the inverse where that has the upper."""

import torch


class SparseGPT:
    def __init__(self, layer):
        self.layer = layer
        self.seen = 0
        self.products = torch.zeros(layer.weight.shape[1], layer.weight.shape[1])

    def add_batch(self, inp, out):
        tokens = inp if inp.dim() == 3 else inp[None]
        self.seen += len(tokens)
        flat = tokens.flatten(0, 1).float()
        self.products += flat.T @ flat

    def fasterprune(self, sparsity, prunen=0, prunem=0, blocksize=128, percdamp=0.01):
        W = self.layer.weight.data.float().clone()
        H = self.products * (2 / self.seen)
        silent = H.diagonal() == 0
        H.diagonal()[silent] = 1
        W[:, silent] = 0
        H.diagonal().add_(percdamp * H.diagonal().mean())
        U = torch.linalg.cholesky(torch.linalg.inv(H)).T
        gone = torch.zeros_like(W, dtype=torch.bool)
        for first in range(0, W.shape[1], blocksize):
            last = min(first + blocksize, W.shape[1])
            if not prunem:
                scores = (W[:, first:last] / U.diagonal()[first:last]) ** 2
                cut = scores.flatten().sort()[0][int(scores.numel() * sparsity)]
                gone[:, first:last] = scores <= cut
            pending = torch.zeros_like(W[:, first:last])
            for j in range(first, last):
                if prunem and (j - first) % prunem == 0:
                    scores = (W[:, j : j + prunem] / U.diagonal()[j : j + prunem]) ** 2
                    smallest = scores.argsort(dim=1)[:, :prunen]
                    gone[:, j : j + prunem].scatter_(1, smallest, True)
                residual = torch.where(gone[:, j], W[:, j], torch.zeros_like(W[:, j])) / U[j, j]
                W[:, j:last] -= torch.outer(residual, U[j, j:last])
                pending[:, j - first] = residual
            W[:, first:last][gone[:, first:last]] = 0
            W[:, last:] -= pending @ U[first:last, last:]
        print("done")
        self.layer.weight.data = W.to(self.layer.weight.dtype)
