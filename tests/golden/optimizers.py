"""Writes optimizers.json: ten training steps of every optimizer and schedule of torch that Nearfar has, and with clipped gradients.

The traces have the form of proxy_trace.json, with the optimizer, the schedule and the clipping as in settings. Losses with proxies
and with a learned boundary have two groups of parameters. The boundary has no weight decay, which would pull it to zero.

usage: pip install torch==2.15.0 pytorch-metric-learning==2.9.0 numpy==2.4.6 && python optimizers.py
"""
from pathlib import Path

from proxy_trace import write

PROXIES = dict(loss=dict(name="proxy-anchor", margin=0.1, alpha=32.0), proxy_rate=0.1)
BOUNDARY = dict(loss=dict(name="margin", margin=0.2, beta=0.4, learn_beta=True, nu=0.3), beta_rate=0.02)
PAIRS = dict(loss=dict(name="sup-con", temperature=0.1))
SGD = dict(name="sgd", momentum=0.0, nesterov=False, weight_decay=0.0)
ADAM = dict(name="adam", betas=[0.9, 0.999], eps=1e-8, weight_decay=0.0)
CYCLE = dict(name="one-cycle", pct_start=0.3, div_factor=25.0, final_div_factor=1e4, cycle_momentum=True, base_momentum=0.85, max_momentum=0.95)
CASES = [
    dict(name="SGD", **PAIRS, rate=0.1, optimizer=SGD, seed=101),
    dict(name="SGD, weight decay", **PROXIES, rate=0.05, optimizer=SGD | dict(weight_decay=0.05), seed=102),
    dict(name="SGD, momentum", **PROXIES, rate=0.01, optimizer=SGD | dict(momentum=0.9), seed=103),
    dict(name="SGD, momentum of Nesterov, weight decay", **BOUNDARY, rate=0.05, optimizer=SGD | dict(momentum=0.8, nesterov=True, weight_decay=0.02), seed=104),
    dict(name="Adam, other betas and eps, weight decay", **PROXIES, optimizer=ADAM | dict(betas=[0.8, 0.95], eps=1e-3, weight_decay=0.05), seed=105),
    dict(name="Adam, weight decay, boundary", **BOUNDARY, optimizer=ADAM | dict(weight_decay=0.1), seed=106),
    dict(name="AdamW", **PROXIES, optimizer=ADAM | dict(name="adamw", weight_decay=0.3), seed=107),
    dict(name="AdamW, boundary", **BOUNDARY, optimizer=ADAM | dict(name="adamw", weight_decay=1.0), seed=108),
    dict(name="cosine", **PROXIES, optimizer=ADAM, schedule=dict(name="cosine-annealing", eta_min=0.002), seed=109),
    dict(name="one cycle, Adam", **PROXIES, optimizer=ADAM, schedule=CYCLE, seed=110),
    dict(name="one cycle, SGD without momentum of its own", **PROXIES, rate=0.02, optimizer=SGD, schedule=CYCLE | dict(pct_start=0.5), seed=111),
    dict(name="one cycle, momentum not cycled", **BOUNDARY, rate=0.1, optimizer=SGD | dict(momentum=0.9), schedule=CYCLE | dict(cycle_momentum=False, div_factor=4.0, final_div_factor=10.0), seed=112),
    dict(name="one cycle that only falls", **PAIRS, optimizer=ADAM, schedule=CYCLE | dict(pct_start=0.0), seed=113),
    dict(name="linear warm-up", **PROXIES, optimizer=ADAM, schedule=dict(name="linear", start_factor=0.1, end_factor=1.0, total_iters=6), seed=114),
    dict(name="linear, the rate falls", **BOUNDARY, optimizer=ADAM | dict(name="adamw", weight_decay=0.5), schedule=dict(name="linear", start_factor=1.0, end_factor=0.2, total_iters=20), seed=115),
    dict(name="steps", **PROXIES, rate=0.05, optimizer=SGD, schedule=dict(name="step", step_size=3, gamma=0.4), seed=116),
    dict(name="clipped, SGD, proxies", **PROXIES, rate=0.2, optimizer=SGD, clip_grad_norm=0.5, seed=117),
    dict(name="clipped, momentum, boundary", **BOUNDARY, rate=0.1, optimizer=SGD | dict(momentum=0.9, weight_decay=0.1), clip_grad_norm=0.2, seed=118),
    dict(name="clipped in some steps, Adam", **PAIRS, optimizer=ADAM | dict(weight_decay=0.1), clip_grad_norm=3.0, seed=119),
    dict(name="clipped, AdamW, one cycle", **PROXIES, optimizer=ADAM | dict(name="adamw", weight_decay=0.2), schedule=CYCLE, clip_grad_norm=45.0, seed=120),
]

write(CASES, Path(__file__).with_suffix(".json"))
