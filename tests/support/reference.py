"""An independent plain decoder: the stock model over the whole text for every token, no cache, no engine."""

import torch

from spectra.verify.noise import keyed_noise
from spectra.verify.picks import processors_of


@torch.inference_mode()
def plain(model, prompt, sampling, *, most, eos=()):
    """(new tokens, for each the margin between its best and second-best score)."""
    chain = processors_of(sampling)
    tokens, margins = list(prompt), []
    while len(margins) < most and not (margins and tokens[-1] in eos):
        ids = torch.tensor([tokens])
        scores = chain(ids, model(ids, use_cache=False).logits[:, -1].float())[0]
        if not sampling.greedy:
            scores = scores - keyed_noise(sampling.seed, len(tokens), len(scores), scores.device).log()
        tokens.append(int(scores.argmax()))
        best = scores.topk(2).values
        margins.append(float(best[0] - best[1]))
    return tokens[len(prompt) :], margins
