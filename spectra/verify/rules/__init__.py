"""Rules for drafts that carry probabilities: each turns drafted tokens into a next token that is distributed as
the target's.

A draft model offers k tokens drawn from its distribution q; the target's distribution at the same place is p. A rule
says how the tokens are drawn (`draft`) and with what chance each of them is accepted (`verdict`). The better the rule,
the oftener one is; what comes out is distributed as p under all of them. Numpy only; no model and no tree in here.

    chain       one draft                                             speculative sampling
    multistep   k drafts, tested one after the other                  SpecInfer; RRS, and RRSw without replacement
    spechub     2 drafts, one of them always the likeliest            SpecHub
    transport   2 drafts, the best that any test can do with them     OTM, OTMw
"""
