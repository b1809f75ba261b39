"""Wanda's class in the layout of the published program, with the body of the loop that prunes."""

import torch


class WrappedGPT:
    def __init__(self, layer, layer_id=0, layer_name="none"):
        self.layer = layer
        self.nsamples = 0
        self.total = torch.zeros(layer.weight.shape[1])

    def add_batch(self, inp, out):
        tokens = inp if inp.dim() == 3 else inp[None]
        self.nsamples += len(tokens)
        self.total += (tokens.float() ** 2).sum((0, 1))

    @property
    def scaler_row(self):
        return self.total / self.nsamples


def prune(layer, wrapped, rho, prune_n, prune_m):
    weight = layer.weight.data
    scores = weight.abs() * wrapped.scaler_row[None].sqrt()
    gone = torch.zeros_like(weight, dtype=torch.bool)
    width = prune_m or weight.shape[1]
    count = prune_n if prune_m else int(width * rho)
    for first in range(0, weight.shape[1], width):
        smallest = scores[:, first : first + width].sort(dim=1, stable=True)[1][:, :count]
        gone.scatter_(1, first + smallest, True)
    weight[gone] = 0
